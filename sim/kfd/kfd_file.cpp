#include "sim/kfd/kfd_file.h"

#include <linux/capability.h>
#include <time.h>

#include <algorithm>

#include "sim/kfd/mmap_offset.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kUserGpuvmBase = 0x10000;  // AMDGPU_VA_RESERVED_BOTTOM
constexpr std::uint64_t kUserGpuvmLimit = 0x7fff'ffff'ffff;
constexpr std::uint64_t kPageMask = 4095;
constexpr std::uint32_t kTileConfigs = 32;
constexpr std::uint32_t kMacroTileConfigs = 16;

std::uint64_t clock_ns(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool may_checkpoint(const Client& client) {
  return client.has_capability(CAP_CHECKPOINT_RESTORE) || client.has_capability(CAP_SYS_ADMIN);
}

// kfd_flat_memory.c: kfd_init_apertures_v9, which serves every GPU up to gfx12.0.
kfd_process_device_apertures apertures_of(const Gpu& gpu) {
  kfd_process_device_apertures apertures{};
  apertures.gpu_id = gpu.gpu_id();
  apertures.lds_base = std::uint64_t{1} << 48;
  apertures.lds_limit = apertures.lds_base | 0xffff'ffff;
  apertures.scratch_base = std::uint64_t{2} << 48;
  apertures.scratch_limit = apertures.scratch_base | 0xffff'ffff;
  apertures.gpuvm_base = kUserGpuvmBase;
  apertures.gpuvm_limit = kUserGpuvmLimit;
  return apertures;
}

}  // namespace

KfdFile::KfdFile(std::shared_ptr<KfdDriver> driver, std::shared_ptr<KfdProcess> process, dev_t device_number)
    : driver_(std::move(driver)),
      opener_(std::move(process)),
      device_number_(device_number),
      current_(opener_.get()) {}

void KfdFile::release() {
  const std::lock_guard lock(secondary_mutex_);
  if (secondary_) secondary_->terminate();
}

// kfd_chardev.c: kfd_ioctl. Only the number selects the row; type, direction and size of the caller's command
// word are not compared, and the caller's size decides how much travels.
void KfdFile::ioctl(const CallRef& call) {
  const std::uint32_t nr = uapi::cmd_nr(call->command);
  if (!driver_->ioctls().in_range(nr)) return refuse(call, Errno(ENOTTY));
  if (!is_opener(call->client())) return refuse(call, Errno(EBADF));
  const auto found = driver_->ioctls().find(nr);
  if (!found) return refuse(call, found.error());
  const IoctlRow& row = *found.value();
  const uapi::IoctlDescriptor& descriptor = row.descriptor();
  call->descriptor = &descriptor;
  if (uapi::has(descriptor.flags, uapi::IoctlFlags::kCheckpointRestore) && !may_checkpoint(call->client())) {
    return refuse(call, Errno(EACCES));
  }
  const std::size_t caller_bytes = uapi::cmd_size(call->command);
  const auto direction = static_cast<unsigned>(descriptor.dir);
  const auto moves = [&](uapi::Direction way) { return (direction & static_cast<unsigned>(way)) != 0; };
  CopyPlan plan;
  plan.buffer_bytes = std::max<std::size_t>(caller_bytes, descriptor.size);
  plan.copy_in_bytes = moves(uapi::Direction::kWrite) ? caller_bytes : 0;
  plan.copy_out_bytes = moves(uapi::Direction::kRead) ? caller_bytes : 0;
  run_row(call, row, plan);
}

// Kernels before 7.0 map what belongs to the caller, whoever opened the file.
Result<std::shared_ptr<KfdProcess>> KfdFile::process_for_mmap(const Client& client) const {
  if (kfd_minor() < kFirstMinorOf7) {
    auto process = driver_->process_of(client);
    if (!process) return Errno(EINVAL);
    return process;
  }
  if (!is_opener(client)) return Errno(EBADF);
  return process().shared_from_this();
}

// kfd_chardev.c: kfd_mmap.
Result<MmapTarget> KfdFile::mmap(Call& call, const MmapRequest& request) {
  const auto process = TRY(process_for_mmap(call.client()));
  const MmapOffset offset = MmapOffset::from(request.offset_bytes);
  const std::uint64_t length_bytes = (request.length_bytes + kPageMask) & ~kPageMask;
  if (offset.type == MmapType::kEvents) {
    const BufferRef page = TRY(process->events().map_kernel_page(length_bytes));
    return MmapTarget{TRY(page->open_description(Hold::kMapLockByte, true)), 0};
  }
  if (offset.type == MmapType::kReservedMemory && kfd_minor() >= kFirstMinorOf7) return Errno(EINVAL);
  const std::lock_guard lock(process->mutex());
  const auto device = process->device(offset.gpu_id);
  if (!device) return Errno(ENODEV);
  if (offset.type == MmapType::kDoorbell && length_bytes == KfdProcess::kDoorbellSliceBytes) {
    UniqueFd pages = TRY(device.value()->ensure_doorbells()->open_description(Hold::kMapLockByte, true));
    return MmapTarget{std::move(pages), 0, /*is_doorbell=*/true};
  }
  if (offset.type == MmapType::kMmio && length_bytes == KfdProcess::kMmioPageBytes) {
    return MmapTarget{TRY(device.value()->ensure_mmio_page()->open_description(Hold::kMapLockByte, true)), 0};
  }
  return Errno(EINVAL);
}

Outcome KfdFile::get_version(Call&, kfd_ioctl_get_version_args& args) {
  args.major_version = KFD_IOCTL_MAJOR_VERSION;
  args.minor_version = kfd_minor();
  return 0;
}

Outcome KfdFile::get_clock_counters(Call&, kfd_ioctl_get_clock_counters_args& args) {
  {
    const std::lock_guard lock(process().mutex());
    const auto device = process().device(args.gpu_id);
    args.gpu_clock_counter = device ? device.value()->gpu.clock_counter() : 0;
  }
  args.cpu_clock_counter = clock_ns(CLOCK_MONOTONIC_RAW);
  args.system_clock_counter = clock_ns(CLOCK_BOOTTIME);
  args.system_clock_freq = 1'000'000'000;
  return 0;
}

Outcome KfdFile::get_process_apertures(Call&, kfd_ioctl_get_process_apertures_args& args) {
  args.num_of_nodes = 0;
  for (const auto& gpu : driver_->gpus()) {
    args.process_apertures[args.num_of_nodes] = apertures_of(*gpu);
    if (++args.num_of_nodes >= NUM_OF_SUPPORTED_GPUS) break;
  }
  return 0;
}

Outcome KfdFile::get_process_apertures_new(Call& call, kfd_ioctl_get_process_apertures_new_args& args) {
  const auto gpu_count = static_cast<std::uint32_t>(driver_->gpus().size());
  if (args.num_of_nodes == 0) {
    args.num_of_nodes = gpu_count;
    return 0;
  }
  if (args.num_of_nodes > driver_->topology_node_count()) return Errno(EINVAL);
  args.num_of_nodes = std::min(args.num_of_nodes, gpu_count);
  std::vector<kfd_process_device_apertures> apertures;
  for (std::uint32_t index = 0; index < args.num_of_nodes; ++index) {
    apertures.push_back(apertures_of(*driver_->gpus()[index]));
  }
  return call.memory().write(args.kfd_process_device_apertures_ptr, std::as_bytes(std::span(apertures)));
}

// amdgpu_amdkfd.c: amdgpu_amdkfd_get_tile_config. From gfx9 on the tables and the bank counts are empty.
Outcome KfdFile::get_tile_config(Call& call, kfd_ioctl_get_tile_config_args& args) {
  const std::lock_guard lock(process().mutex());
  const ProcessDevice& device = *TRY(process().device(args.gpu_id));
  args.gb_addr_config = device.gpu.profile().gb_addr_config;
  args.num_banks = 0;
  args.num_ranks = 0;
  constexpr std::uint32_t kEmpty[kTileConfigs] = {};
  const auto write_table = [&](std::uint64_t address, std::uint32_t& count, std::uint32_t available) {
    count = std::min(count, available);
    const bool written = bool(call.memory().write(address, std::as_bytes(std::span(kEmpty).first(count))));
    if (!written) count = 0;
    return written;
  };
  if (!write_table(args.tile_config_ptr, args.num_tile_configs, kTileConfigs)) return Errno(EFAULT);
  if (!write_table(args.macro_tile_config_ptr, args.num_macro_tile_configs, kMacroTileConfigs))
    return Errno(EFAULT);
  return 0;
}

// The alternate aperture matters to gfx7 and gfx8 only.
Outcome KfdFile::set_memory_policy(Call&, kfd_ioctl_set_memory_policy_args& args) {
  const auto known = [](std::uint32_t policy) {
    return policy == KFD_IOC_CACHE_POLICY_COHERENT || policy == KFD_IOC_CACHE_POLICY_NONCOHERENT;
  };
  if (!known(args.default_policy) || !known(args.alternate_policy)) return Errno(EINVAL);
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  if (!device.file) return Errno(ESRCH);
  device.default_cache_policy = args.default_policy;
  device.alternate_cache_policy = args.alternate_policy;
  return 0;
}

Outcome KfdFile::set_scratch_backing_va(Call&, kfd_ioctl_set_scratch_backing_va_args& args) {
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  TRY(device.vm());
  device.scratch_backing_address = args.va_addr;
  return 0;
}

Outcome KfdFile::set_trap_handler(Call&, kfd_ioctl_set_trap_handler_args& args) {
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  if (!device.file) return Errno(ESRCH);
  device.trap_handler_address = args.tba_addr;
  device.trap_memory_address = args.tma_addr;
  return 0;
}

Outcome KfdFile::set_xnack_mode(Call&, kfd_ioctl_set_xnack_mode_args& args) {
  const std::lock_guard lock(process().mutex());
  if (args.xnack_enabled < 0) {
    args.xnack_enabled = process().xnack_enabled ? 1 : 0;
    return 0;
  }
  if (process().queues().any()) return Errno(EBUSY);
  if (args.xnack_enabled == (process().xnack_enabled ? 1 : 0)) return 0;
  const bool enable = args.xnack_enabled != 0;
  const auto& gpus = driver_->gpus();
  const bool supported =
      std::all_of(gpus.begin(), gpus.end(), [](const auto& gpu) { return gpu->profile().supports_xnack; });
  if (enable && !supported) return Errno(EPERM);
  process().xnack_enabled = enable;
  return 0;
}

// kfd_chardev.c: runtime_enable, runtime_disable; no debugger is ever attached.
Outcome KfdFile::runtime_enable(Call&, kfd_ioctl_runtime_enable_args& args) {
  const std::lock_guard lock(process().mutex());
  if (!(args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK)) {
    process().runtime_state = RuntimeState::kDisabled;
    return 0;
  }
  if (process().runtime_state != RuntimeState::kDisabled) return Errno(EBUSY);
  if (process().queues().any()) return Errno(EEXIST);
  process().runtime_state = RuntimeState::kEnabled;
  process().r_debug_address = args.r_debug;
  return 0;
}

Outcome KfdFile::available_memory(Call&, kfd_ioctl_get_available_memory_args& args) {
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  args.available = device.gpu.available_memory_bytes();
  return 0;
}

}  // namespace understudy::kfd
