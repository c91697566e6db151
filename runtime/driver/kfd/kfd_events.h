// KFD events: the page of signal slots that GPUs write to, and waiting in the kernel.
//
// The page belongs to the process and cannot be given back (the kernel refuses FREE); it is made with the
// first event. Owner: KfdDriver. Thread-safe. Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_events.c.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/driver/events.h"
#include "runtime/driver/kfd/device_buffer.h"

namespace hsa_rt::kfd {

class KfdDriver;

class KfdEvents final : public EventSource {
 public:
  explicit KfdEvents(KfdDriver& driver) : driver_(driver) {}

  Result<Event> create_event(EventKind kind, bool auto_reset) override;
  Result<void> destroy_event(const Event& event) override;
  Result<void> set_event(const Event& event) override;
  Result<WaitOutcome> wait_any(std::span<EventWait> events, uint32_t timeout_ms) override;

 private:
  KfdDriver& driver_;
  std::mutex page_lock_;
  std::optional<DeviceBuffer> page_;
  bool page_known_to_kernel_ = false;
};

}  // namespace hsa_rt::kfd
