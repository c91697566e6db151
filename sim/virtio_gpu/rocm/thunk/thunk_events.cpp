#include "sim/virtio_gpu/rocm/thunk/thunk_events.h"

#include "uapi/kfd.h"

namespace understudy::virtio_gpu {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kSlotBytes = 8;

bool is_signal_like(std::uint32_t type) {
  return type == hsa::HSA_EVENTTYPE_SIGNAL || type == hsa::HSA_EVENTTYPE_DEBUG_EVENT;
}

}  // namespace

HsaStatus ThunkEvents::ensure_event_page() {
  if (event_page_ != 0 || gpus_.all().empty()) return HsaStatus::kSuccess;
  HsaResult<std::uint64_t> page =
      memory_.allocate_internal(gpus_.all().front(), KFD_SIGNAL_EVENT_LIMIT * kSlotBytes, false);
  if (!page) return HsaStatus::kError;
  event_page_ = page.value();
  return HsaStatus::kSuccess;
}

HsaResult<EventHandle> ThunkEvents::create(const hsa::HsaEventDescriptor& descriptor, bool manual_reset,
                                           bool is_signalled) {
  if (descriptor.EventType >= hsa::HSA_EVENTTYPE_MAXID) return HsaStatus::kInvalidParameter;
  const bool page_is_new = event_page_ == 0;
  if (const HsaStatus status = ensure_event_page(); status != HsaStatus::kSuccess) return status;

  kfd_ioctl_create_event_args args{};
  args.event_type = descriptor.EventType;
  args.node_id = descriptor.NodeId;
  args.auto_reset = manual_reset ? 0 : 1;
  if (page_is_new && event_page_ != 0) args.event_page_offset = memory_.find(event_page_)->kfd_handle;
  if (!gpus_.ioctl<CreateEvent>(args)) return HsaStatus::kError;

  hsa::HsaEvent event{};
  event.EventId = args.event_id;
  event.EventData.EventType = descriptor.EventType;
  event.EventData.HWData1 = args.event_id;
  if (event_page_ != 0 && args.event_slot_index < KFD_SIGNAL_EVENT_LIMIT)
    event.EventData.HWData2 = event_page_ + args.event_slot_index * kSlotBytes;
  event.EventData.HWData3 = args.event_trigger_data;
  event.EventData.EventData.SyncVar = descriptor.SyncVar;
  if (is_signalled && is_signal_like(descriptor.EventType) && set_id(args.event_id) != HsaStatus::kSuccess) {
    (void)destroy_id(args.event_id);
    return HsaStatus::kError;
  }
  const EventHandle handle{next_handle_};
  next_handle_ += sizeof(hsa::HsaEvent);
  events_[handle] = event;
  return handle;
}

const hsa::HsaEvent* ThunkEvents::find(EventHandle handle) const {
  const auto event = events_.find(handle);
  return event == events_.end() ? nullptr : &event->second;
}

HsaStatus ThunkEvents::destroy_id(std::uint32_t event_id) {
  kfd_ioctl_destroy_event_args args{};
  args.event_id = event_id;
  return gpus_.ioctl<DestroyEvent>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkEvents::set_id(std::uint32_t event_id) {
  kfd_ioctl_set_event_args args{};
  args.event_id = event_id;
  return gpus_.ioctl<SetEvent>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkEvents::destroy(EventHandle handle) {
  const hsa::HsaEvent* const event = find(handle);
  if (!event) return HsaStatus::kInvalidHandle;
  const HsaStatus status = destroy_id(event->EventId);
  if (status == HsaStatus::kSuccess) events_.erase(handle);
  return status;
}

HsaStatus ThunkEvents::set(EventHandle handle) {
  const hsa::HsaEvent* const event = find(handle);
  if (!event) return HsaStatus::kInvalidHandle;
  // Events of the system are set by the driver alone.
  if (!is_signal_like(event->EventData.EventType)) return HsaStatus::kError;
  return set_id(event->EventId);
}

HsaStatus ThunkEvents::reset(EventHandle handle) {
  const hsa::HsaEvent* const event = find(handle);
  if (!event) return HsaStatus::kInvalidHandle;
  if (!is_signal_like(event->EventData.EventType)) return HsaStatus::kError;
  kfd_ioctl_reset_event_args args{};
  args.event_id = event->EventId;
  return gpus_.ioctl<ResetEvent>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkEvents::query_state(EventHandle handle) const {
  return find(handle) ? HsaStatus::kSuccess : HsaStatus::kInvalidHandle;
}

}  // namespace understudy::virtio_gpu
