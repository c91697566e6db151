#include "sim/virtio_gpu/rocm/thunk/host_thunk.h"

#include <algorithm>
#include <cstring>

#include "uapi/amdgpu.h"

namespace understudy::virtio_gpu {
namespace {

using namespace uapi::kfd;

// What hsaKmtGetNodeProperties adds to a GPU's memory banks: LDS, scratch, shared virtual memory.
constexpr std::uint32_t kApertureHeaps = 3;
constexpr std::uint32_t kFirstMinorWithRuntimeEnable = 13;

hsa::HsaMemoryProperties aperture(std::uint32_t heap_type, std::uint64_t base, std::uint64_t size_bytes) {
  hsa::HsaMemoryProperties properties{};
  properties.HeapType = heap_type;
  properties.VirtualBaseAddress = base;
  properties.SizeInBytes = size_bytes;
  return properties;
}

}  // namespace

HostThunk::~HostThunk() = default;

Result<std::unique_ptr<HostThunk>> HostThunk::open(Machine& host) {
  std::unique_ptr<HostThunk> thunk(new HostThunk());
  thunk->process_ = TRY(HostProcess::create(host));
  thunk->topology_ = TRY(read_topology(*thunk->process_));
  thunk->gpus_ = TRY(HostGpus::open(*thunk->process_, thunk->topology_));
  thunk->memory_ = std::make_unique<ThunkMemory>(*thunk->gpus_, thunk->topology_);
  thunk->events_ = std::make_unique<ThunkEvents>(*thunk->gpus_, *thunk->memory_);
  thunk->queues_ = std::make_unique<ThunkQueues>(*thunk->gpus_, thunk->topology_, *thunk->memory_);
  return thunk;
}

HsaResult<hsa::HsaVersionInfo> HostThunk::version() const {
  kfd_ioctl_get_version_args args{};
  if (!gpus_->ioctl<GetVersion>(args)) return HsaStatus::kError;
  return hsa::HsaVersionInfo{args.major_version, args.minor_version};
}

HsaResult<hsa::HsaNodeProperties> HostThunk::node_properties(std::uint64_t node_id) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  hsa::HsaNodeProperties properties = found->properties;
  if (found->is_gpu()) properties.NumMemoryBanks += kApertureHeaps;
  return properties;
}

HsaStatus HostThunk::memory_properties(std::uint64_t node_id,
                                       std::span<hsa::HsaMemoryProperties> banks) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  std::vector<hsa::HsaMemoryProperties> all = found->memory;
  if (const HostGpu* const gpu = gpus_->by_node(node_id)) {
    const kfd_process_device_apertures& limits = gpu->apertures;
    all.push_back(aperture(hsa::HSA_HEAPTYPE_GPU_LDS, limits.lds_base,
                           std::uint64_t{found->properties.LDSSizeInKB} * 1024));
    all.push_back(aperture(hsa::HSA_HEAPTYPE_GPU_SCRATCH, limits.scratch_base,
                           limits.scratch_limit - limits.scratch_base + 1));
    all.push_back(aperture(hsa::HSA_HEAPTYPE_DEVICE_SVM, limits.gpuvm_base,
                           limits.gpuvm_limit - limits.gpuvm_base + 1));
  }
  std::copy_n(all.begin(), std::min(all.size(), banks.size()), banks.begin());
  return HsaStatus::kSuccess;
}

HsaStatus HostThunk::cache_properties(std::uint64_t node_id,
                                      std::span<hsa::HsaCacheProperties> caches) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  if (caches.size() > found->properties.NumCaches) return HsaStatus::kInvalidParameter;
  std::copy_n(found->caches.begin(), std::min(found->caches.size(), caches.size()), caches.begin());
  return HsaStatus::kSuccess;
}

HsaStatus HostThunk::link_properties(std::uint64_t node_id, std::span<hsa::HsaIoLinkProperties> links) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  if (links.size() > found->properties.NumIOLinks) return HsaStatus::kInvalidParameter;
  std::copy_n(found->links.begin(), std::min(found->links.size(), links.size()), links.begin());
  return HsaStatus::kSuccess;
}

HsaResult<hsa::HsaClockCounters> HostThunk::clock_counters(std::uint64_t node_id) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  kfd_ioctl_get_clock_counters_args args{};
  args.gpu_id = found->gpu_id();
  if (!gpus_->ioctl<GetClockCounters>(args)) return HsaStatus::kError;
  return hsa::HsaClockCounters{args.gpu_clock_counter, args.cpu_clock_counter, args.system_clock_counter,
                               args.system_clock_freq};
}

HsaStatus HostThunk::tile_config(std::uint64_t node_id, std::span<std::uint32_t> tiles,
                                 std::span<std::uint32_t> macro_tiles, hsa::HsaGpuTileConfig& config) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  const HostAddressSpace::Staged staged_tiles(process_->memory(), std::as_writable_bytes(tiles));
  const HostAddressSpace::Staged staged_macro_tiles(process_->memory(), std::as_writable_bytes(macro_tiles));
  kfd_ioctl_get_tile_config_args args{};
  args.gpu_id = found->gpu_id();
  args.tile_config_ptr = staged_tiles.address();
  args.num_tile_configs = static_cast<std::uint32_t>(tiles.size());
  args.macro_tile_config_ptr = staged_macro_tiles.address();
  args.num_macro_tile_configs = static_cast<std::uint32_t>(macro_tiles.size());
  if (!gpus_->ioctl<GetTileConfig>(args)) return HsaStatus::kError;
  config.NumTileConfigs = args.num_tile_configs;
  config.NumMacroTileConfigs = args.num_macro_tile_configs;
  config.GbAddrConfig = args.gb_addr_config;
  config.NumBanks = args.num_banks;
  config.NumRanks = args.num_ranks;
  return HsaStatus::kSuccess;
}

HsaResult<std::int32_t> HostThunk::xnack_mode() const {
  kfd_ioctl_set_xnack_mode_args args{};
  args.xnack_enabled = -1;  // only asks
  const Result<int> asked = gpus_->ioctl<SetXnackMode>(args);
  if (asked) return args.xnack_enabled;
  return asked.error() == Errno(EPERM) ? HsaStatus::kNotSupported : HsaStatus::kError;
}

HsaStatus HostThunk::set_xnack_mode(std::int32_t mode) const {
  kfd_ioctl_set_xnack_mode_args args{};
  args.xnack_enabled = mode;
  const Result<int> set = gpus_->ioctl<SetXnackMode>(args);
  if (set) return HsaStatus::kSuccess;
  return set.error() == Errno(EPERM) ? HsaStatus::kNotSupported : HsaStatus::kError;
}

HsaStatus HostThunk::runtime_enable(bool setup_ttmp) const {
  HsaResult<hsa::HsaVersionInfo> kfd = version();
  if (!kfd || kfd.value().KernelInterfaceMinorVersion < kFirstMinorWithRuntimeEnable)
    return HsaStatus::kNotSupported;
  kfd_ioctl_runtime_enable_args args{};
  args.mode_mask =
      KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK | (setup_ttmp ? KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK : 0);
  const Result<int> enabled = gpus_->ioctl<RuntimeEnable>(args);
  if (enabled) return HsaStatus::kSuccess;
  return enabled.error() == Errno(EBUSY) ? HsaStatus::kUnavailable : HsaStatus::kError;
}

HsaStatus HostThunk::set_trap_handler(std::uint64_t node_id, std::uint64_t handler,
                                      std::uint64_t buffer) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  kfd_ioctl_set_trap_handler_args args{};
  args.gpu_id = found->gpu_id();
  args.tba_addr = handler;
  args.tma_addr = buffer;
  return gpus_->ioctl<SetTrapHandler>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus HostThunk::set_memory_policy(std::uint64_t node_id, std::uint32_t default_policy,
                                       std::uint32_t alternate_policy, std::uint64_t alternate_base,
                                       std::uint64_t alternate_bytes) const {
  const TopologyNode* const found = node(node_id);
  if (!found) return HsaStatus::kInvalidNode;
  kfd_ioctl_set_memory_policy_args args{};
  args.gpu_id = found->gpu_id();
  args.default_policy = default_policy;
  args.alternate_policy = alternate_policy;
  args.alternate_aperture_base = alternate_base;
  args.alternate_aperture_size = alternate_bytes;
  return gpus_->ioctl<SetMemoryPolicy>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

int HostThunk::gpu_info(hsa::amdgpu_gpu_info& info) const {
  using namespace uapi::amdgpu;
  if (gpus_->all().empty()) return -EINVAL;
  drm_amdgpu_info_device device{};
  const HostAddressSpace::Staged staged(process_->memory(), std::as_writable_bytes(std::span(&device, 1)));
  drm_amdgpu_info args{};
  args.return_pointer = staged.address();
  args.return_size = sizeof device;
  args.query = AMDGPU_INFO_DEV_INFO;
  const Result<int> asked = process_->ioctl<Info>(gpus_->all().front().render.file(), args);
  if (!asked) return -asked.error().number();
  info.asic_id = device.device_id;
  info.chip_rev = device.chip_rev;
  info.chip_external_rev = device.external_rev;
  info.family_id = device.family;
  info.ids_flags = device.ids_flags;
  info.max_engine_clk = device.max_engine_clock;
  info.max_memory_clk = device.max_memory_clock;
  info.num_shader_engines = device.num_shader_engines;
  info.num_shader_arrays_per_engine = device.num_shader_arrays_per_engine;
  info.num_hw_gfx_contexts = device.num_hw_gfx_contexts;
  info.rb_pipes = device.num_rb_pipes;
  info.enabled_rb_pipes_mask = device.enabled_rb_pipes_mask;
  info.gpu_counter_freq = device.gpu_counter_freq;
  info.cu_active_number = device.cu_active_number;
  info.cu_ao_mask = device.cu_ao_mask;
  std::memcpy(info.cu_bitmap, device.cu_bitmap, sizeof info.cu_bitmap);
  info.vram_type = device.vram_type;
  info.vram_bit_width = device.vram_bit_width;
  info.ce_ram_size = device.ce_ram_size;
  info.vce_harvest_config = device.vce_harvest_config;
  info.pci_rev_id = device.pci_rev;
  return 0;
}

}  // namespace understudy::virtio_gpu
