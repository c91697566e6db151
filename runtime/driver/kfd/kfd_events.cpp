#include "runtime/driver/kfd/kfd_events.h"

#include <cerrno>
#include <vector>

#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/kfd_driver.h"
#include "uapi/kfd.h"

namespace hsa_rt::kfd {
namespace {

uint32_t kfd_type(EventKind kind) {
  switch (kind) {
    case EventKind::kSignal:
      return uapi::kfd::KFD_IOC_EVENT_SIGNAL;
    case EventKind::kMemoryFault:
      return uapi::kfd::KFD_IOC_EVENT_MEMORY;
    case EventKind::kHardwareException:
      return uapi::kfd::KFD_IOC_EVENT_HW_EXCEPTION;
  }
  return uapi::kfd::KFD_IOC_EVENT_SIGNAL;
}

}  // namespace

Result<Event> KfdEvents::create_event(EventKind kind, bool auto_reset) {
  constexpr uint64_t kSlotBytes = 8;
  constexpr uint64_t kPageBytesOfSlots = uapi::kfd::KFD_SIGNAL_EVENT_LIMIT * kSlotBytes;

  uapi::kfd::kfd_ioctl_create_event_args args{};
  args.event_type = kfd_type(kind);
  args.auto_reset = auto_reset;
  args.node_id = driver_.gpus().front()->info().node_id;

  const std::lock_guard guard(page_lock_);
  if (!page_) {
    AllocationRequest request;
    request.size_bytes = kPageBytesOfSlots;
    request.placement = Placement::kHost;
    request.uncached = true;
    page_ = TRY(DeviceBuffer::create(*driver_.gpus().front(), request, driver_.gpus(), true));
  }
  if (!page_known_to_kernel_) {
    args.event_page_offset = static_cast<KfdMemory&>(*page_->memory()).handle();
  }
  TRY(driver_ioctl<uapi::kfd::CreateEvent>(driver_.kfd_fd(), args));
  page_known_to_kernel_ = true;
  Event event;
  event.id = args.event_id;
  if (kind == EventKind::kSignal)
    event.mailbox_address = page_->address() + args.event_slot_index * kSlotBytes;
  return event;
}

Result<void> KfdEvents::destroy_event(const Event& event) {
  uapi::kfd::kfd_ioctl_destroy_event_args args{};
  args.event_id = event.id;
  return driver_ioctl<uapi::kfd::DestroyEvent>(driver_.kfd_fd(), args);
}

Result<void> KfdEvents::set_event(const Event& event) {
  uapi::kfd::kfd_ioctl_set_event_args args{};
  args.event_id = event.id;
  return driver_ioctl<uapi::kfd::SetEvent>(driver_.kfd_fd(), args);
}

Result<WaitOutcome> KfdEvents::wait_any(std::span<EventWait> events, uint32_t timeout_ms) {
  std::vector<uapi::kfd::kfd_event_data> data(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    data[i].event_id = events[i].id;
    if (events[i].kind == EventKind::kSignal) data[i].signal_event_data.last_event_age = events[i].age;
  }
  uapi::kfd::kfd_ioctl_wait_events_args args{};
  args.events_ptr = reinterpret_cast<uint64_t>(data.data());
  args.num_events = static_cast<uint32_t>(data.size());
  args.timeout = timeout_ms;
  const Result<void> waited = driver_ioctl<uapi::kfd::WaitEvents>(driver_.kfd_fd(), args);
  if (!waited) {
    if (waited.error().value == EIO || waited.error().value == EINVAL) return WaitOutcome::kDestroyed;
    return waited.error();
  }
  if (args.wait_result == uapi::kfd::KFD_IOC_WAIT_RESULT_TIMEOUT) return WaitOutcome::kTimeout;
  for (size_t i = 0; i < events.size(); ++i) {
    EventWait& event = events[i];
    switch (event.kind) {
      case EventKind::kSignal:
        event.age = data[i].signal_event_data.last_event_age;
        break;
      case EventKind::kMemoryFault: {
        const auto& fault = data[i].memory_exception_data;
        event.fault = {driver_.gpu_by_id(fault.gpu_id),
                       fault.va,
                       fault.failure.NotPresent != 0,
                       fault.failure.ReadOnly != 0,
                       fault.failure.NoExecute != 0,
                       fault.failure.imprecise != 0,
                       fault.ErrorType};
        break;
      }
      case EventKind::kHardwareException: {
        const auto& exception = data[i].hw_exception_data;
        event.exception = {driver_.gpu_by_id(exception.gpu_id), exception.memory_lost != 0,
                           exception.reset_cause == uapi::kfd::KFD_HW_EXCEPTION_ECC};
        break;
      }
    }
  }
  return WaitOutcome::kFired;
}

}  // namespace hsa_rt::kfd
