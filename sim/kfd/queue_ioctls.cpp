// KfdFile's handlers for queues. Mirrors amdkfd/kfd_chardev.c: set_queue_properties_from_user,
// kfd_ioctl_create_queue, kfd_ioctl_update_queue.
#include <algorithm>

#include "sim/kfd/kfd_file.h"
#include "sim/kfd/mmap_offset.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

// The kernel's own ENOTSUPP, which has no name in user space.
constexpr int kErrnoNotSupp = 524;
constexpr std::uint64_t kUserAddressEnd = 0x7fff'ffff'f000;
constexpr unsigned kFirstMinorWithSdmaByEngine = 17;
constexpr unsigned kFirstMinorWithMetadataRing = 22;
// The percentage's second byte names the partition a PM4 queue is meant for.
constexpr unsigned kFirstMinorWithTargetXcc = 14;
constexpr std::uint32_t kPercentMask = 0xff;
constexpr std::uint32_t kMaxCuMaskBits = 1024;
constexpr std::uint64_t kFirstVersionWithWgp = 100000;

// access_ok() of a few bytes.
bool is_user_address(std::uint64_t address) {
  return address < kUserAddressEnd;
}

bool is_zero_or_power_of_two(std::uint32_t value) {
  return (value & (value - 1)) == 0;
}

Result<void> check_share(unsigned kfd_minor, std::uint32_t percentage, std::uint32_t priority) {
  const std::uint32_t percent =
      kfd_minor >= kFirstMinorWithTargetXcc ? percentage & kPercentMask : percentage;
  if (percent > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY) return Errno(EINVAL);
  return {};
}

// Clamps the size as the kernel does, in the caller's struct.
Result<void> check_ring(std::uint64_t address, std::uint32_t& size_bytes) {
  if (!is_user_address(address)) return Errno(EFAULT);
  if (!is_zero_or_power_of_two(size_bytes)) return Errno(EINVAL);
  size_bytes = std::max(size_bytes, KFD_MIN_QUEUE_RING_SIZE);
  return {};
}

Result<void> set_type(unsigned kfd_minor, std::uint32_t type, QueueProperties& properties) {
  switch (type) {
    case KFD_IOC_QUEUE_TYPE_COMPUTE:
      return {};
    case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
      properties.format = QueueFormat::kAql;
      return {};
    case KFD_IOC_QUEUE_TYPE_SDMA:
      properties.type = QueueType::kSdma;
      return {};
    case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
      properties.type = QueueType::kSdmaXgmi;
      return {};
    case KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID:
      if (kfd_minor < kFirstMinorWithSdmaByEngine) break;
      properties.type = QueueType::kSdmaByEngine;
      return {};
  }
  return Errno(kErrnoNotSupp);
}

Result<QueueProperties> properties_from(unsigned kfd_minor, kfd_ioctl_create_queue_args& args) {
  TRY(check_share(kfd_minor, args.queue_percentage, args.queue_priority));
  TRY(check_ring(args.ring_base_address, args.ring_size));
  const bool has_metadata_ring = kfd_minor >= kFirstMinorWithMetadataRing;
  if (has_metadata_ring && !is_zero_or_power_of_two(args.metadata_ring_size)) return Errno(EINVAL);
  for (const std::uint64_t address : {args.read_pointer_address, args.write_pointer_address,
                                      args.eop_buffer_address, args.ctx_save_restore_address}) {
    if (!is_user_address(address)) return Errno(EFAULT);
  }
  QueueProperties properties;
  properties.ring_address = args.ring_base_address;
  properties.ring_size_bytes = args.ring_size;
  properties.read_pointer_address = args.read_pointer_address;
  properties.write_pointer_address = args.write_pointer_address;
  properties.eop_address = args.eop_buffer_address;
  properties.eop_size_bytes = args.eop_buffer_size;
  properties.context_save_address = args.ctx_save_restore_address;
  properties.context_save_size_bytes = args.ctx_save_restore_size;
  properties.control_stack_size_bytes = args.ctl_stack_size;
  properties.percent = args.queue_percentage;
  properties.priority = args.queue_priority;
  properties.sdma_engine = args.sdma_engine_id;
  TRY(set_type(kfd_minor, args.queue_type, properties));
  if (has_metadata_ring && properties.format == QueueFormat::kAql) {
    properties.metadata_ring_size_bytes = args.metadata_ring_size;
  }
  return properties;
}

}  // namespace

Outcome KfdFile::create_queue(Call& call, kfd_ioctl_create_queue_args& args) {
  const QueueProperties properties = TRY(properties_from(kfd_minor(), args));
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  if (!device.file) return Errno(ESRCH);
  if (properties.type == QueueType::kSdmaByEngine &&
      properties.sdma_engine >= driver_->device_queues(device.gpu).sdma_engine_count()) {
    return Errno(EINVAL);
  }
  device.ensure_doorbells();
  const Queue& queue = *TRY(process().queues().create(&call, device, properties));
  args.queue_id = queue.id;
  args.doorbell_offset =
      MmapOffset{MmapType::kDoorbell, args.gpu_id}.value() | queue.doorbell * sizeof(std::uint64_t);
  return 0;
}

Outcome KfdFile::destroy_queue(Call& call, kfd_ioctl_destroy_queue_args& args) {
  const std::lock_guard lock(process().mutex());
  return process().queues().destroy(&call, args.queue_id);
}

Outcome KfdFile::update_queue(Call&, kfd_ioctl_update_queue_args& args) {
  TRY(check_share(kfd_minor(), args.queue_percentage, args.queue_priority));
  TRY(check_ring(args.ring_base_address, args.ring_size));
  const std::lock_guard lock(process().mutex());
  return process().queues().update(args.queue_id, args.ring_base_address, args.ring_size,
                                   args.queue_percentage, args.queue_priority);
}

// kfd_process_queue_manager.c: pqm_update_mqd. From gfx10 on compute units come in pairs.
Outcome KfdFile::set_cu_mask(Call& call, kfd_ioctl_set_cu_mask_args& args) {
  if (args.num_cu_mask % 32 != 0 || args.num_cu_mask == 0) return Errno(EINVAL);
  const std::uint32_t words = std::min(args.num_cu_mask, kMaxCuMaskBits) / 32;
  auto mask = TRY(call.memory().read_array<std::uint32_t>(args.cu_mask_ptr, words));
  const std::lock_guard lock(process().mutex());
  Queue* queue = process().queues().find(args.queue_id);
  if (queue == nullptr) return Errno(EFAULT);
  const bool paired = queue->device->gpu.profile().property("gfx_target_version") >= kFirstVersionWithWgp;
  const auto lone = [](std::uint32_t word) { return ((word ^ word >> 1) & 0x55555555) != 0; };
  if (paired && std::any_of(mask.begin(), mask.end(), lone)) return Errno(EINVAL);
  queue->cu_mask = std::move(mask);
  return 0;
}

// kfd_device_queue_manager.c: get_wave_state. No wave ever runs here, so the saved state is empty.
Outcome KfdFile::get_queue_wave_state(Call&, kfd_ioctl_get_queue_wave_state_args& args) {
  const std::lock_guard lock(process().mutex());
  const Queue* queue = process().queues().find(args.queue_id);
  if (queue == nullptr) return Errno(EFAULT);
  const bool stopped = !queue->properties.is_active() || process().queues_paused;
  if (queue->properties.is_sdma() || !stopped) return Errno(EINVAL);
  args.ctl_stack_used_size = 0;
  args.save_area_used_size = 0;
  return 0;
}

Outcome KfdFile::alloc_queue_gws(Call&, kfd_ioctl_alloc_queue_gws_args& args) {
  const std::lock_guard lock(process().mutex());
  TRY(process().queues().set_gws(args.queue_id, args.num_gws != 0));
  args.first_gws = 0;
  return 0;
}

}  // namespace understudy::kfd
