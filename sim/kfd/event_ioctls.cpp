// KfdFile's handlers for events. Mirrors amdkfd/kfd_chardev.c and kfd_events.c: kfd_kmap_event_page.
#include "sim/kfd/kfd_file.h"
#include "sim/kfd/mmap_offset.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr unsigned kFirstMinorWithEventAge = 14;

// The first CREATE_EVENT brings the page whose slots the GPUs write.
Result<void> adopt_signal_page(KfdProcess& process, KfdHandle handle) {
  const std::lock_guard lock(process.mutex());
  if (process.events().has_signal_page()) return Errno(EINVAL);
  const ProcessDevice& device = *TRY(process.device(handle.gpu_id));
  TRY(device.vm());
  const auto memory = process.memory(handle);
  if (!memory || memory->bo()->is_userptr()) return Errno(EINVAL);
  TRY(process.events().set_signal_page(memory->bo()->buffer(), memory->bo()->size_bytes()));
  process.signal_handle = handle;
  process.has_signal_handle = true;
  // From now on FREE_MEMORY_OF_GPU refuses it.
  memory->entry.keep_for_life();
  memory->bo()->keep_for_life();
  return {};
}

}  // namespace

Outcome KfdFile::create_event(Call& call, kfd_ioctl_create_event_args& args) {
  if (args.event_page_offset != 0) {
    TRY(adopt_signal_page(process(), KfdHandle::from(args.event_page_offset)));
  }
  args.event_page_offset = 0;
  const auto created = TRY(process().events().create(&call, args.event_type, args.auto_reset != 0));
  args.event_id = created.id;
  args.event_trigger_data = created.id;
  if (created.has_slot) {
    args.event_page_offset = MmapOffset{MmapType::kEvents, 0}.value();
    args.event_slot_index = created.id;
  }
  return 0;
}

Outcome KfdFile::destroy_event(Call& call, kfd_ioctl_destroy_event_args& args) {
  return process().events().destroy(&call, args.event_id);
}

Outcome KfdFile::set_event(Call&, kfd_ioctl_set_event_args& args) {
  return process().events().set(args.event_id);
}

Outcome KfdFile::reset_event(Call&, kfd_ioctl_reset_event_args& args) {
  return process().events().reset(args.event_id);
}

Outcome KfdFile::wait_events(Call& call, kfd_ioctl_wait_events_args& args) {
  return process().events().wait(call, args, kfd_minor() >= kFirstMinorWithEventAge);
}

}  // namespace understudy::kfd
