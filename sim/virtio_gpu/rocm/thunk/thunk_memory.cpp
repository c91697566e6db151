#include "sim/virtio_gpu/rocm/thunk/thunk_memory.h"

#include <algorithm>
#include <iterator>

namespace understudy::virtio_gpu {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kPageBytes = 4096;
// Where the library's own buffers and address-less memory lie: below anything a guest shares.
constexpr std::uint64_t kInternalBase = 0x0c00'0000'0000;
constexpr std::uint64_t kInternalBytes = std::uint64_t{1} << 40;

constexpr std::uint64_t align_up(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

// fmm.c: fmm_translate_hsa_to_ioc_flags, and what its callers add.
std::uint32_t kfd_flags_of(const hsa::HsaMemFlags& flags) {
  std::uint32_t bits = 0;
  const auto& wanted = flags.ui32;
  if (wanted.AQLQueueMemory) bits |= KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED;
  if (!wanted.ReadOnly) bits |= KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  if (wanted.ExecuteAccess) bits |= KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
  if (!wanted.CoarseGrain) bits |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
  if (wanted.Uncached) bits |= KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED;
  if (wanted.ExtendedCoherent)
    bits |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT;
  return bits;
}

}  // namespace

ThunkMemory::ThunkMemory(const HostGpus& gpus, const Topology& topology)
    : gpus_(gpus), topology_(topology), internal_(kInternalBase, kInternalBytes) {}

ThunkMemory::~ThunkMemory() = default;

std::vector<std::uint32_t> ThunkMemory::all_gpu_ids() const {
  std::vector<std::uint32_t> ids;
  for (const HostGpu& gpu : gpus_.all()) ids.push_back(gpu.node->gpu_id());
  return ids;
}

HsaResult<std::uint64_t> ThunkMemory::allocate(std::uint64_t node_id, std::uint64_t size_bytes,
                                               hsa::HsaMemFlags flags, std::uint64_t address) {
  const TopologyNode* const node = topology_.node(node_id);
  if (!node) return HsaStatus::kInvalidNode;
  const auto& wanted = flags.ui32;
  if (size_bytes == 0 || size_bytes % kPageBytes != 0) return HsaStatus::kInvalidParameter;
  if (wanted.FixedAddress && address == 0) return HsaStatus::kInvalidParameter;
  if (wanted.ExtendedCoherent && (wanted.CoarseGrain || wanted.Uncached)) return HsaStatus::kInvalidParameter;
  if (wanted.OnlyAddress && wanted.NoAddress) return HsaStatus::kInvalidParameter;

  Allocation allocation;
  allocation.size_bytes = size_bytes;
  allocation.node_id = static_cast<std::uint32_t>(node_id);
  allocation.flags = flags;
  allocation.gpu_id = node->gpu_id();
  const bool on_device = node->is_gpu() && wanted.NonPaged && !wanted.GTTAccess && !wanted.OnlyAddress;
  if (wanted.Scratch) {
    if (!node->is_gpu()) return HsaStatus::kNoMemory;
    allocation.kind = Kind::kScratch;
  } else if (wanted.OnlyAddress) {
    allocation.kind = Kind::kReserved;
  } else {
    allocation.kind = on_device ? Kind::kVram : Kind::kHost;
  }
  // System memory belongs to no GPU; KFD wants to hear of one all the same.
  if (allocation.gpu_id == 0 || allocation.kind == Kind::kHost) {
    if (gpus_.all().empty()) return HsaStatus::kError;
    if (allocation.gpu_id == 0) allocation.gpu_id = gpus_.all().front().node->gpu_id();
  }

  if (wanted.FixedAddress) {
    allocation.address = address;
  } else {
    const auto chosen = internal_.allocate(size_bytes, kPageBytes);
    if (!chosen) return HsaStatus::kNoMemory;
    allocation.address = *chosen;
  }
  const auto fail = [&](HsaStatus status) {
    internal_.free(allocation.address);
    return status;
  };
  const auto next = table_.lower_bound(allocation.address);
  const bool overlaps = (next != table_.end() && next->first - allocation.address < size_bytes) ||
                        find(allocation.address) != nullptr;
  if (overlaps) return fail(on_device ? HsaStatus::kNoMemory : HsaStatus::kError);

  if (allocation.kind == Kind::kScratch) {
    kfd_ioctl_set_scratch_backing_va_args args{};
    args.gpu_id = allocation.gpu_id;
    args.va_addr = allocation.address;
    if (!gpus_.ioctl<SetScratchBackingVa>(args)) return fail(HsaStatus::kNoMemory);
  } else if (allocation.kind != Kind::kReserved) {
    std::uint32_t kfd_flags =
        kfd_flags_of(flags) | (on_device ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT);
    if (on_device && wanted.HostAccess) kfd_flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
    if (on_device) kfd_flags |= KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
    const std::uint64_t kfd_bytes = wanted.AQLQueueMemory ? size_bytes * 2 : size_bytes;
    if (allocate_on_kfd(allocation, kfd_flags, kfd_bytes) != HsaStatus::kSuccess)
      return fail(on_device ? HsaStatus::kNoMemory : HsaStatus::kError);
  }
  table_[allocation.address] = allocation;
  return allocation.address;
}

HsaStatus ThunkMemory::allocate_on_kfd(Allocation& allocation, std::uint32_t kfd_flags,
                                       std::uint64_t kfd_bytes) {
  kfd_ioctl_alloc_memory_of_gpu_args args{};
  args.va_addr = allocation.flags.ui32.NoAddress ? 0 : allocation.address;
  args.size = kfd_bytes;
  args.gpu_id = allocation.gpu_id;
  args.flags = kfd_flags;
  args.mmap_offset = allocation.user_address;  // userptr: the pages; otherwise out only
  if (!gpus_.ioctl<AllocMemoryOfGpu>(args)) return HsaStatus::kNoMemory;
  allocation.kfd_handle = args.handle;
  allocation.mmap_offset = args.mmap_offset;
  return HsaStatus::kSuccess;
}

void ThunkMemory::free_on_kfd(const Allocation& allocation) const {
  kfd_ioctl_free_memory_of_gpu_args args{};
  args.handle = allocation.kfd_handle;
  (void)gpus_.ioctl<FreeMemoryOfGpu>(args);
}

ThunkMemory::Table::iterator ThunkMemory::entry_of(std::uint64_t address) {
  const Allocation* const allocation = find(address);
  return allocation ? table_.find(allocation->address) : table_.end();
}

const ThunkMemory::Allocation* ThunkMemory::find(std::uint64_t address) const {
  const auto next = table_.upper_bound(address);
  if (next == table_.begin()) return nullptr;
  const auto& [start, allocation] = *std::prev(next);
  return address - start < allocation.size_bytes ? &allocation : nullptr;
}

HsaStatus ThunkMemory::free(std::uint64_t address) {
  if (address == 0) return HsaStatus::kError;
  const auto entry = table_.find(address);
  if (entry == table_.end()) return HsaStatus::kMemoryNotRegistered;
  if (entry->second.kfd_handle != 0) {
    kfd_ioctl_free_memory_of_gpu_args args{};
    args.handle = entry->second.kfd_handle;
    if (!gpus_.ioctl<FreeMemoryOfGpu>(args)) return HsaStatus::kError;
  }
  internal_.free(entry->first);
  table_.erase(entry);
  return HsaStatus::kSuccess;
}

HsaStatus ThunkMemory::map_on_gpus(Allocation& allocation, std::span<const std::uint32_t> gpu_ids) const {
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t id : gpu_ids) {
    if (!allocation.mapped.contains(id)) missing.push_back(id);
  }
  if (missing.empty()) return HsaStatus::kSuccess;
  const HostAddressSpace::Staged staged(gpus_.process().memory(), std::as_writable_bytes(std::span(missing)));
  kfd_ioctl_map_memory_to_gpu_args args{};
  args.handle = allocation.kfd_handle;
  args.device_ids_array_ptr = staged.address();
  args.n_devices = static_cast<std::uint32_t>(missing.size());
  const Result<int> mapped = gpus_.ioctl<MapMemoryToGpu>(args);
  // KFD says how far it came, whether or not it came to the end.
  for (std::uint32_t i = 0; i < args.n_success && i < missing.size(); ++i)
    allocation.mapped.insert(missing[i]);
  return mapped ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkMemory::unmap_from_gpus(Allocation& allocation) const {
  return unmap_from_gpus(allocation, {allocation.mapped.begin(), allocation.mapped.end()});
}

HsaStatus ThunkMemory::unmap_from_gpus(Allocation& allocation, std::vector<std::uint32_t> ids) const {
  if (ids.empty()) return HsaStatus::kSuccess;
  const HostAddressSpace::Staged staged(gpus_.process().memory(), std::as_writable_bytes(std::span(ids)));
  kfd_ioctl_unmap_memory_from_gpu_args args{};
  args.handle = allocation.kfd_handle;
  args.device_ids_array_ptr = staged.address();
  args.n_devices = static_cast<std::uint32_t>(ids.size());
  const Result<int> unmapped = gpus_.ioctl<UnmapMemoryFromGpu>(args);
  for (std::uint32_t i = 0; i < args.n_success && i < ids.size(); ++i) allocation.mapped.erase(ids[i]);
  return unmapped ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkMemory::map(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t& alternate) {
  return map_allocation(address, size_bytes, all_gpu_ids(), alternate);
}

HsaStatus ThunkMemory::map_on_nodes(std::uint64_t address, std::uint64_t size_bytes,
                                    std::span<const std::uint32_t> nodes, std::uint64_t& alternate) {
  std::vector<std::uint32_t> gpu_ids;
  for (const std::uint32_t node_id : nodes) {
    const TopologyNode* const node = topology_.node(node_id);
    if (!node) return HsaStatus::kInvalidNode;
    if (node->is_gpu()) gpu_ids.push_back(node->gpu_id());
  }
  if (const auto entry = entry_of(address); entry != table_.end()) {
    // Registered memory is always mapped on all.
    if (entry->second.kind == Kind::kUser) return map(address, size_bytes, alternate);
    std::vector<std::uint32_t> others;
    std::ranges::set_difference(entry->second.mapped, std::set(gpu_ids.begin(), gpu_ids.end()),
                                std::back_inserter(others));
    if (const HsaStatus status = unmap_from_gpus(entry->second, others); status != HsaStatus::kSuccess)
      return status;
  }
  return map_allocation(address, size_bytes, gpu_ids, alternate);
}

HsaStatus ThunkMemory::map_allocation(std::uint64_t address, std::uint64_t size_bytes,
                                      std::span<const std::uint32_t> gpu_ids, std::uint64_t& alternate) {
  alternate = 0;
  if (address == 0) return HsaStatus::kError;
  const auto entry = entry_of(address);
  if (entry == table_.end()) return HsaStatus::kError;
  Allocation& allocation = entry->second;
  if (allocation.kind == Kind::kScratch) return map_scratch(address, size_bytes);
  if (allocation.kfd_handle == 0) return HsaStatus::kError;
  const HsaStatus status = map_on_gpus(allocation, gpu_ids);
  if (status == HsaStatus::kSuccess && allocation.kind == Kind::kUser)
    alternate = allocation.address + address % kPageBytes;
  return status;
}

// fmm.c: fmm_map_to_gpu_scratch: memory appears behind the reserved addresses when they are mapped.
HsaStatus ThunkMemory::map_scratch(std::uint64_t address, std::uint64_t size_bytes) {
  if (address % kPageBytes != 0 || size_bytes == 0 || scratch_backings_.contains(address))
    return HsaStatus::kError;
  Allocation backing = entry_of(address)->second;
  backing.address = address;
  backing.size_bytes = align_up(size_bytes);
  const HsaStatus allocated = allocate_on_kfd(
      backing, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, backing.size_bytes);
  if (allocated != HsaStatus::kSuccess) return HsaStatus::kError;
  const std::uint32_t gpu_id = backing.gpu_id;
  if (map_on_gpus(backing, std::span(&gpu_id, 1)) != HsaStatus::kSuccess) {
    free_on_kfd(backing);
    return HsaStatus::kError;
  }
  scratch_backings_[address] = backing;
  return HsaStatus::kSuccess;
}

HsaStatus ThunkMemory::unmap(std::uint64_t address) {
  if (address == 0) return HsaStatus::kSuccess;
  if (const auto scratch = scratch_backings_.find(address); scratch != scratch_backings_.end()) {
    (void)unmap_from_gpus(scratch->second);
    free_on_kfd(scratch->second);
    scratch_backings_.erase(scratch);
    return HsaStatus::kSuccess;
  }
  const auto entry = entry_of(address);
  if (entry == table_.end()) return HsaStatus::kError;
  return unmap_from_gpus(entry->second);
}

HsaStatus ThunkMemory::register_user(std::uint64_t address, std::uint64_t size_bytes,
                                     hsa::HsaMemFlags flags) {
  const auto& wanted = flags.ui32;
  if (wanted.ExtendedCoherent && wanted.CoarseGrain) return HsaStatus::kInvalidParameter;
  if (!wanted.HostAccess || wanted.NonPaged) return HsaStatus::kNotSupported;
  // Memory the library allocated itself needs no registering; what is registered already is counted.
  if (const auto entry = entry_of(address); entry != table_.end()) {
    if (entry->second.kind == Kind::kUser) ++entry->second.registration_count;
    return HsaStatus::kSuccess;
  }
  if (gpus_.all().empty()) return HsaStatus::kNotSupported;

  Allocation allocation;
  allocation.kind = Kind::kUser;
  allocation.address = address & ~(kPageBytes - 1);
  allocation.size_bytes = align_up(address + size_bytes) - allocation.address;
  allocation.user_address = allocation.address;
  allocation.user_size_bytes = size_bytes;
  allocation.registration_count = 1;
  allocation.flags = flags;
  allocation.gpu_id = gpus_.all().front().node->gpu_id();
  std::uint32_t kfd_flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
  if (!wanted.CoarseGrain) kfd_flags |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
  // Pages that the guest pinned for reading stay so for the GPU.
  if (!gpus_.process().memory().is_read_only(allocation.address, allocation.size_bytes))
    kfd_flags |= KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  if (allocate_on_kfd(allocation, kfd_flags, allocation.size_bytes) != HsaStatus::kSuccess)
    return HsaStatus::kError;
  table_[allocation.address] = allocation;
  return HsaStatus::kSuccess;
}

HsaStatus ThunkMemory::deregister(std::uint64_t address) {
  const auto entry = entry_of(address);
  if (entry == table_.end()) return HsaStatus::kMemoryNotRegistered;
  if (entry->second.kind != Kind::kUser) return HsaStatus::kSuccess;
  if (--entry->second.registration_count != 0) return HsaStatus::kSuccess;
  (void)unmap_from_gpus(entry->second);
  return free(entry->first);
}

HsaResult<std::uint64_t> ThunkMemory::available_bytes(std::uint64_t node_id) const {
  const TopologyNode* const node = topology_.node(node_id);
  if (!node) return HsaStatus::kInvalidNode;
  kfd_ioctl_get_available_memory_args args{};
  args.gpu_id = node->gpu_id();
  if (!gpus_.ioctl<AvailableMemory>(args)) return HsaStatus::kError;
  return args.available;
}

BlobOpener ThunkMemory::opener(std::uint64_t address) const {
  const Allocation* const allocation = find(address);
  if (!allocation || allocation->kfd_handle == 0 || allocation->kind == Kind::kUser) return {};
  const HostGpu* const gpu = gpus_.by_gpu_id(allocation->gpu_id);
  if (!gpu) return {};
  return [&process = gpus_.process(), file = gpu->render.file(), offset = allocation->mmap_offset,
          size = allocation->size_bytes] { return process.map(file, offset, size); };
}

HsaResult<std::uint64_t> ThunkMemory::allocate_internal(const HostGpu& gpu, std::uint64_t size_bytes,
                                                        bool in_vram) {
  hsa::HsaMemFlags flags{};
  flags.ui32.NonPaged = in_vram;
  flags.ui32.ExecuteAccess = 1;
  flags.ui32.HostAccess = !in_vram;
  HsaResult<std::uint64_t> address = allocate(gpu.node_id, align_up(size_bytes), flags, 0);
  if (!address) return address;
  const std::uint32_t gpu_id = gpu.node->gpu_id();
  if (map_on_gpus(table_.at(address.value()), std::span(&gpu_id, 1)) != HsaStatus::kSuccess) {
    (void)free(address.value());
    return HsaStatus::kNoMemory;
  }
  return address;
}

void ThunkMemory::free_internal(std::uint64_t address) {
  (void)unmap(address);
  (void)free(address);
}

}  // namespace understudy::virtio_gpu
