// HostObject: memory the host holds for this process: an allocation, or pages of the process that the host
// sees in one piece. The host chose the address, and its GPUs know the memory by it.
//
// The host maps on a list of GPUs and unmaps from all at once; so the list is kept here. Closing the blob is
// what frees an allocation.
//
// Owner: VirtioMemory, by shared_ptr. Units: bytes. Errors: errno of the host's answer. Thread-safe.
// Mirrors: virglrenderer src/rocm/hsakmt_memory.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/address_span.h"
#include "runtime/driver/virtio/virtio_file.h"

namespace hsa_rt::virtio {

class HostChannel;

class HostObject {
 public:
  enum class Kind : uint8_t { kAllocation, kUserPages };

  HostObject(HostChannel& channel, Kind kind, VirtioFile::Blob blob, const AddressSpan& span);
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;
  ~HostObject();

  const AddressSpan& span() const { return span_; }
  const GemRef& gem() const { return *blob_.gem; }
  uint32_t resource_id() const { return blob_.resource_id; }

  // Counted: the GPU of `node` has the memory until each map() has its unmap().
  Result<void> map(uint32_t node);
  Result<void> unmap(uint32_t node);

  // Gives the memory back; nothing is mapped any more. A second call does nothing.
  Result<void> close();

 private:
  // Requires lock_.
  Result<void> map_exactly(const std::map<uint32_t, uint64_t>& nodes);

  HostChannel& channel_;
  VirtioFile::Blob blob_;
  const AddressSpan span_;
  bool registered_;  // with the host's library, apart from the blob
  std::mutex lock_;
  std::map<uint32_t, uint64_t> uses_by_node_;
};

}  // namespace hsa_rt::virtio
