// GEM ioctls of the render node. Mirrors amdgpu_gem.c.
#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/core/vma.h"
#include "sim/drm/fence_wait.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint64_t kPageBytes = 4096;
// AMDGPU_GEM_CREATE_SETTABLE_MASK of amdgpu_gem.c.
constexpr std::uint64_t kSettableFlags =
    AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_CPU_GTT_USWC |
    AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC |
    AMDGPU_GEM_CREATE_ENCRYPTED | AMDGPU_GEM_CREATE_GFX12_DCC | AMDGPU_GEM_CREATE_DISCARDABLE;
constexpr std::uint64_t kOnChipDomains =
    AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA | AMDGPU_GEM_DOMAIN_DOORBELL;
constexpr std::uint32_t kUserptrFlags = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
                                        AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;

std::uint64_t page_align(std::uint64_t size_bytes) {
  return (size_bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

BoKind kind_of(std::uint64_t domains) {
  if (domains & AMDGPU_GEM_DOMAIN_VRAM) return BoKind::kVram;
  return BoKind::kGtt;
}

std::uint64_t domains_of(const AmdgpuBo& bo) {
  if (bo.spec().gem_domains != 0) return bo.spec().gem_domains;
  switch (bo.kind()) {
    case BoKind::kVram:
      return AMDGPU_GEM_DOMAIN_VRAM;
    case BoKind::kUserptr:
      return AMDGPU_GEM_DOMAIN_CPU;
    default:
      return AMDGPU_GEM_DOMAIN_GTT;
  }
}

}  // namespace

Outcome AmdgpuFile::gem_create(Call& call, drm_amdgpu_gem_create& args) {
  const drm_amdgpu_gem_create_in in = args.in;
  if (in.domain_flags & ~kSettableFlags) return Errno(EINVAL);
  if (in.domains & ~std::uint64_t{AMDGPU_GEM_DOMAIN_MASK}) return Errno(EINVAL);
  if (in.domain_flags & AMDGPU_GEM_CREATE_ENCRYPTED) return Errno(EINVAL);
  if (in.domains & kOnChipDomains) {
    // GDS, GWS and OA are not simulated; mixing them with memory domains is wrong anyway.
    return Errno(EINVAL);
  }
  const std::uint64_t size_bytes = page_align(in.bo_size);
  if (in.bo_size == 0 || size_bytes < in.bo_size) return Errno(EINVAL);
  BoSpec spec;
  spec.kind = kind_of(in.domains);
  spec.size_bytes = size_bytes;
  spec.alignment_bytes = in.alignment;
  spec.gem_domains = in.domains;
  spec.gem_flags = in.domain_flags;
  spec.cpu_accessible = (in.domain_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) == 0;
  Result<BoRef> bo = AmdgpuBo::create(gpu(), &call, spec);
  if (!bo && spec.kind == BoKind::kVram) {
    // VRAM falls back to GTT before the allocation fails.
    spec.kind = BoKind::kGtt;
    spec.gem_domains |= AMDGPU_GEM_DOMAIN_GTT;
    bo = AmdgpuBo::create(gpu(), &call, spec);
  }
  if (!bo) return bo.error();
  args.out.handle = static_cast<std::uint32_t>(TRY(handles().create(&call, bo.value())));
  args.out._pad = 0;
  return 0;
}

Outcome AmdgpuFile::gem_mmap(Call&, drm_amdgpu_gem_mmap& args) {
  const BoRef bo = TRY(lookup_bo(args.in.handle));
  if (bo->is_userptr() || (bo->spec().gem_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)) return Errno(EPERM);
  args.out.addr_ptr = bo->mmap_offset_bytes();
  return 0;
}

Outcome AmdgpuFile::gem_userptr(Call& call, drm_amdgpu_gem_userptr& args) {
  if ((args.addr | args.size) & (kPageBytes - 1)) return Errno(EINVAL);
  if (args.flags & ~kUserptrFlags) return Errno(EINVAL);
  const bool read_only = (args.flags & AMDGPU_GEM_USERPTR_READONLY) != 0;
  if (!read_only && !(args.flags & AMDGPU_GEM_USERPTR_REGISTER)) return Errno(EACCES);
  if (args.size == 0) return Errno(EINVAL);
  if (args.flags & AMDGPU_GEM_USERPTR_VALIDATE) {
    TRY(check_user_range(call.client(), args.addr, args.size, !read_only));
  }
  BoSpec spec;
  spec.kind = BoKind::kUserptr;
  spec.size_bytes = args.size;
  spec.gem_domains = AMDGPU_GEM_DOMAIN_CPU;
  spec.user_client = call.caller().client;
  spec.user_address = args.addr;
  spec.user_read_only = read_only;
  const BoRef bo = TRY(AmdgpuBo::create(gpu(), &call, spec));
  args.handle = static_cast<std::uint32_t>(TRY(handles().create(&call, bo)));
  return 0;
}

Outcome AmdgpuFile::gem_op(Call& call, drm_amdgpu_gem_op& args) {
  if (args.padding != 0) return Errno(EINVAL);
  const BoRef bo = TRY(lookup_bo(args.handle));
  switch (args.op) {
    case AMDGPU_GEM_OP_GET_GEM_CREATE_INFO: {
      const drm_amdgpu_gem_create_in info{bo->size_bytes(), bo->spec().alignment_bytes, domains_of(*bo),
                                          bo->spec().gem_flags};
      return call.memory().write_value(args.value, info);
    }
    case AMDGPU_GEM_OP_SET_PLACEMENT:
      if (bo->imported_from() && (args.value & AMDGPU_GEM_DOMAIN_VRAM)) return Errno(EINVAL);
      if (bo->is_userptr()) return Errno(EPERM);
      return 0;
    case AMDGPU_GEM_OP_GET_MAPPING_INFO: {
      const std::vector<GpuMapping> mappings = vm_->mappings_of(*bo);
      std::vector<drm_amdgpu_gem_vm_entry> entries;
      for (const GpuMapping& mapping : mappings) {
        if (mapping.made_by_kfd) continue;
        entries.push_back({mapping.start, mapping.size_bytes, mapping.bo_offset_bytes, mapping.gem_va_flags});
      }
      const std::size_t room = std::min<std::size_t>(args.num_entries, entries.size());
      TRY(call.memory().write(args.value, std::as_bytes(std::span(entries).first(room))));
      args.num_entries = static_cast<std::uint32_t>(entries.size());
      return 0;
    }
    default:
      return Errno(EINVAL);
  }
}

Outcome AmdgpuFile::gem_metadata(Call&, drm_amdgpu_gem_metadata& args) {
  const BoRef bo = TRY(lookup_bo(args.handle));
  if (args.op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
    const BoMetadata metadata = bo->metadata();
    args.data.flags = metadata.flags;
    args.data.tiling_info = metadata.tiling_info;
    args.data.data_size_bytes = metadata.size_bytes;
    std::memcpy(args.data.data, metadata.data.data(), sizeof args.data.data);
  } else if (args.op == AMDGPU_GEM_METADATA_OP_SET_METADATA) {
    BoMetadata metadata;
    if (args.data.data_size_bytes > metadata.data.size()) return Errno(EINVAL);
    metadata.flags = args.data.flags;
    metadata.tiling_info = args.data.tiling_info;
    metadata.size_bytes = args.data.data_size_bytes;
    std::memcpy(metadata.data.data(), args.data.data, args.data.data_size_bytes);
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
                             [&args, bo](bool signalled) -> Outcome {
                               args.out.status = signalled ? 0 : 1;
                               args.out.domain = static_cast<std::uint32_t>(domains_of(*bo));
                               return 0;
                             });
}

Outcome AmdgpuFile::gem_list_handles(Call& call, drm_amdgpu_gem_list_handles& args) {
  if (args.padding != 0) return Errno(EINVAL);
  std::vector<drm_amdgpu_gem_list_handles_entry> entries;
  for (const auto& [handle, object] : handles().all()) {
    const auto& bo = static_cast<const AmdgpuBo&>(*object);
    const std::uint32_t imported = bo.imported_from() ? AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT : 0;
    entries.push_back({static_cast<std::uint32_t>(handle), imported, bo.size_bytes(), domains_of(bo),
                       bo.spec().gem_flags, bo.spec().alignment_bytes});
  }
  const std::size_t room = std::min<std::size_t>(args.num_entries, entries.size());
  TRY(call.memory().write(args.entries, std::as_bytes(std::span(entries).first(room))));
  args.num_entries = static_cast<std::uint32_t>(entries.size());
  return 0;
}

}  // namespace understudy::kfd
