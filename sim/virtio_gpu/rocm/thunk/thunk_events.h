// ThunkEvents: the library's events of one process.
//
// Owner: HostThunk. Units: none. Errors: HsaStatus. Thread-safety: one thread at a time. Mirrors: libhsakmt
// events.c.
//
// An event's handle is what the library would give out a pointer as; here it is a number that is only looked
// up.
#pragma once

#include <cstdint>
#include <map>

#include "sim/virtio_gpu/rocm/thunk/host_gpus.h"
#include "sim/virtio_gpu/rocm/thunk/status.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_memory.h"

namespace understudy::virtio_gpu {

enum class EventHandle : std::uint64_t {};

class ThunkEvents {
 public:
  ThunkEvents(const HostGpus& gpus, ThunkMemory& memory) : gpus_(gpus), memory_(memory) {}

  HsaResult<EventHandle> create(const hsa::HsaEventDescriptor& descriptor, bool manual_reset,
                                bool is_signalled);
  HsaStatus destroy(EventHandle handle);
  HsaStatus set(EventHandle handle);
  HsaStatus reset(EventHandle handle);
  HsaStatus query_state(EventHandle handle) const;
  // Null when unknown.
  const hsa::HsaEvent* find(EventHandle handle) const;

 private:
  HsaStatus ensure_event_page();
  HsaStatus set_id(std::uint32_t event_id);
  HsaStatus destroy_id(std::uint32_t event_id);

  const HostGpus& gpus_;
  ThunkMemory& memory_;
  std::uint64_t event_page_ = 0;  // address; 0: none yet
  std::map<EventHandle, hsa::HsaEvent> events_;
  std::uint64_t next_handle_ = 0x0b00'0000'0000;  // where nothing else of the process lies
};

}  // namespace understudy::virtio_gpu
