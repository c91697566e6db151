// GEM ioctls of the render node. Mirrors amdgpu_gem.c.
#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/drm/fence_wait.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint64_t kPageBytes = 4096;
// AMDGPU_GEM_CREATE_SETTABLE_MASK
constexpr std::uint64_t kSettableFlags =
    AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_CPU_GTT_USWC |
    AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC |
    AMDGPU_GEM_CREATE_ENCRYPTED | AMDGPU_GEM_CREATE_GFX12_DCC | AMDGPU_GEM_CREATE_DISCARDABLE;
constexpr std::uint64_t kMemoryDomains =
    AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
constexpr std::uint64_t kOnChipDomains = AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA;
constexpr std::uint32_t kUserptrFlags = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
                                        AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;
// What amdgpu_bo_create makes of the caller's flags.
constexpr std::uint64_t kAlwaysSetFlags =
    AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE;
constexpr std::uint64_t kForgottenFlags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;

// The checks of amdgpu_gem_create_ioctl, in its order.
Result<void> check_create(const drm_amdgpu_gem_create_in& in) {
  // Doorbells are for user queues, which these GPUs do not have.
  if (in.domains & AMDGPU_GEM_DOMAIN_DOORBELL) return Errno(EINVAL);
  if (in.domain_flags & ~kSettableFlags) return Errno(EINVAL);
  if (in.domains & ~std::uint64_t{AMDGPU_GEM_DOMAIN_MASK}) return Errno(EINVAL);
  if ((in.domains & kMemoryDomains) && (in.domains & kOnChipDomains)) return Errno(EINVAL);
  if (in.domain_flags & AMDGPU_GEM_CREATE_ENCRYPTED) return Errno(EINVAL);
  if (in.domains & kOnChipDomains) {
    // On-chip memory is not simulated: as if all of it were taken.
    return in.domain_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ? Errno(EINVAL) : Errno(ENOMEM);
  }
  return {};
}

// amdgpu_bo_validate_size: GTT counts where it is among the domains.
bool fits(const Gpu& gpu, std::uint64_t size_bytes, std::uint64_t domains) {
  if (domains & AMDGPU_GEM_DOMAIN_GTT) return size_bytes < gpu.gtt_size_bytes();
  if (domains & AMDGPU_GEM_DOMAIN_VRAM) return size_bytes < gpu.vram_size_bytes();
  return true;
}

Result<BoRef> create_in(Gpu& gpu, const Call& call, BoSpec spec, BoKind kind) {
  spec.kind = kind;
  return AmdgpuBo::create(gpu, &call, spec);
}

// In the first of its domains that has room; what is only for VRAM goes to GTT before it fails.
Result<BoRef> create_bo(Gpu& gpu, const Call& call, BoSpec spec) {
  if (spec.gem_domains == AMDGPU_GEM_DOMAIN_VRAM && fits(gpu, spec.size_bytes, spec.gem_domains)) {
    if (Result<BoRef> bo = create_in(gpu, call, spec, BoKind::kVram)) return bo;
  }
  if (spec.gem_domains == AMDGPU_GEM_DOMAIN_VRAM) spec.gem_domains |= AMDGPU_GEM_DOMAIN_GTT;
  if (!fits(gpu, spec.size_bytes, spec.gem_domains)) return Errno(ENOMEM);
  if (spec.gem_domains & AMDGPU_GEM_DOMAIN_VRAM) {
    if (Result<BoRef> bo = create_in(gpu, call, spec, BoKind::kVram)) return bo;
  }
  return create_in(gpu, call, spec, BoKind::kGtt);
}

Result<void> get_create_info(Call& call, const AmdgpuBo& bo, std::uint64_t address) {
  const drm_amdgpu_gem_create_in info{bo.size_bytes(), bo.spec().alignment_bytes, bo.preferred_domains(),
                                      bo.spec().gem_flags};
  return call.memory().write_value(address, info);
}

Result<void> set_placement(AmdgpuBo& bo, std::uint64_t domains) {
  if (bo.imported_from() && (domains & AMDGPU_GEM_DOMAIN_VRAM)) return Errno(EINVAL);
  if (bo.is_userptr()) return Errno(EPERM);
  bo.set_preferred_domains(domains & kMemoryDomains);
  return {};
}

// Writes as many entries as there is room for, and says how many there are.
template <typename Entry>
Result<void> write_entries(Call& call, std::uint64_t address, std::uint32_t& count,
                           const std::vector<Entry>& entries) {
  const std::size_t room = std::min<std::size_t>(count, entries.size());
  count = static_cast<std::uint32_t>(entries.size());
  return call.memory().write(address, std::as_bytes(std::span(entries).first(room)));
}

}  // namespace

Outcome AmdgpuFile::gem_create(Call& call, drm_amdgpu_gem_create& args) {
  const drm_amdgpu_gem_create_in in = args.in;
  TRY(check_create(in));
  std::uint64_t size_bytes = 0;
  if (in.bo_size == 0 || __builtin_add_overflow(in.bo_size, kPageBytes - 1, &size_bytes))
    return Errno(EINVAL);
  BoSpec spec;
  spec.size_bytes = size_bytes & ~(kPageBytes - 1);
  spec.alignment_bytes = (in.alignment + kPageBytes - 1) & ~(kPageBytes - 1);
  spec.gem_domains = in.domains;
  spec.gem_flags = (in.domain_flags | kAlwaysSetFlags) & ~kForgottenFlags;
  spec.cpu_accessible = (in.domain_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) == 0;
  const BoRef bo = TRY(create_bo(gpu(), call, spec));
  const drm::GemHandle handle = TRY(handles().create(&call, bo));
  args = {};
  args.out.handle = static_cast<std::uint32_t>(handle);
  return 0;
}

Outcome AmdgpuFile::gem_mmap(Call&, drm_amdgpu_gem_mmap& args) {
  const std::uint32_t handle = args.in.handle;
  args = {};
  const BoRef bo = TRY(lookup_bo(handle));
  if (bo->is_userptr() || (bo->spec().gem_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)) return Errno(EPERM);
  args.out.addr_ptr = bo->mmap_offset_bytes();
  return 0;
}

Outcome AmdgpuFile::gem_userptr(Call& call, drm_amdgpu_gem_userptr& args) {
  if ((args.addr | args.size) & (kPageBytes - 1)) return Errno(EINVAL);
  if (args.flags & ~kUserptrFlags) return Errno(EINVAL);
  const bool read_only = (args.flags & AMDGPU_GEM_USERPTR_READONLY) != 0;
  if (!read_only && !(args.flags & AMDGPU_GEM_USERPTR_REGISTER)) return Errno(EACCES);
  // mmu_interval_notifier_insert
  std::uint64_t end = 0;
  if (args.size == 0 || __builtin_add_overflow(args.addr, args.size - 1, &end)) return Errno(EOVERFLOW);
  BoSpec spec;
  spec.kind = BoKind::kUserptr;
  spec.size_bytes = args.size;
  spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
  spec.gem_flags = AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE;
  spec.user_client = call.caller().client;
  spec.user_address = args.addr;
  spec.user_read_only = read_only;
  spec.user_anonymous_only = (args.flags & AMDGPU_GEM_USERPTR_ANONONLY) != 0;
  spec.check_user_pages_now = (args.flags & AMDGPU_GEM_USERPTR_VALIDATE) != 0;
  const BoRef bo = TRY(AmdgpuBo::create(gpu(), &call, spec));
  args.handle = static_cast<std::uint32_t>(TRY(handles().create(&call, bo)));
  return 0;
}

Outcome AmdgpuFile::gem_op(Call& call, drm_amdgpu_gem_op& args) {
  if (args.padding != 0) return Errno(EINVAL);
  const BoRef bo = TRY(lookup_bo(args.handle));
  switch (args.op) {
    case AMDGPU_GEM_OP_GET_GEM_CREATE_INFO:
      return get_create_info(call, *bo, args.value);
    case AMDGPU_GEM_OP_SET_PLACEMENT:
      return set_placement(*bo, args.value);
    case AMDGPU_GEM_OP_GET_MAPPING_INFO: {
      std::vector<drm_amdgpu_gem_vm_entry> entries;
      for (const GpuMapping& mapping : vm_->mappings_of(*bo)) {
        if (mapping.made_by_kfd) continue;
        entries.push_back({mapping.start, mapping.size_bytes, mapping.bo_offset_bytes, mapping.gem_va_flags});
      }
      return write_entries(call, args.value, args.num_entries, entries);
    }
    default:
      return Errno(EINVAL);
  }
}

Outcome AmdgpuFile::gem_metadata(Call&, drm_amdgpu_gem_metadata& args) {
  const BoRef bo = TRY(lookup_bo(args.handle));
  BoMetadata metadata = bo->metadata();
  if (args.op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
    args.data.flags = metadata.flags;
    args.data.tiling_info = metadata.tiling_info;
    args.data.data_size_bytes = metadata.size_bytes;
    std::memcpy(args.data.data, metadata.data.data(), metadata.size_bytes);
  } else if (args.op == AMDGPU_GEM_METADATA_OP_SET_METADATA) {
    if (args.data.data_size_bytes > metadata.data.size()) return Errno(EINVAL);
    metadata.tiling_info = args.data.tiling_info;
    metadata.size_bytes = args.data.data_size_bytes;
    // Without data only the tiling changes.
    if (metadata.size_bytes != 0) metadata.flags = args.data.flags;
    std::memcpy(metadata.data.data(), args.data.data, metadata.size_bytes);
    bo->set_metadata(metadata);
  }
  // Any other operation succeeds and does nothing.
  return 0;
}

Outcome AmdgpuFile::gem_wait_idle(Call& call, drm_amdgpu_gem_wait_idle& args) {
  const BoRef bo = TRY(lookup_bo(args.in.handle));
  const std::uint64_t timeout_ns = args.in.timeout;
  // The timeout is not an error: it shows in status.
  return drm::wait_for_fence(call, drm::Fence::merge(bo->reservation().pending()), timeout_ns,
                             [&args](bool signalled) -> Outcome {
                               args = {};
                               args.out.status = signalled ? 0 : 1;
                               return 0;
                             });
}

Outcome AmdgpuFile::gem_list_handles(Call& call, drm_amdgpu_gem_list_handles& args) {
  if (args.padding != 0) return Errno(EINVAL);
  std::vector<drm_amdgpu_gem_list_handles_entry> entries;
  for (const auto& [handle, object] : handles().all()) {
    const auto& bo = static_cast<const AmdgpuBo&>(*object);
    drm_amdgpu_gem_list_handles_entry entry{};
    entry.size = bo.size_bytes();
    entry.alloc_flags = bo.spec().gem_flags;
    entry.preferred_domains = bo.preferred_domains();
    entry.alignment = bo.spec().alignment_bytes;
    entry.gem_handle = static_cast<std::uint32_t>(handle);
    if (bo.imported_from()) entry.flags |= AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT;
    entries.push_back(entry);
  }
  return write_entries(call, args.entries, args.num_entries, entries);
}

}  // namespace understudy::kfd
