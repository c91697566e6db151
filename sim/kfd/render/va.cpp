// GEM_VA. Mirrors amdgpu_gem.c: amdgpu_gem_va_ioctl.
#include "sim/core/machine.h"
#include "sim/drm/syncobj.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/render/address_limits.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint32_t kMappingFlags = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE |
                                        AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE |
                                        AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC;
constexpr std::uint32_t kPrtFlags = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT;

// VALID operations in the order of the header.
constexpr bool is_known_operation(std::uint32_t operation) {
  return operation >= AMDGPU_VA_OP_MAP && operation <= AMDGPU_VA_OP_REPLACE;
}

}  // namespace

Outcome AmdgpuFile::gem_va(Call& call, drm_amdgpu_gem_va& args) {
  if (args.va_address < kVaReservedBottomBytes) return Errno(EINVAL);
  if (args.va_address >= kHoleStart && args.va_address < kHoleEnd) return Errno(EINVAL);
  args.va_address &= kHoleMask;
  std::uint64_t end = 0;
  if (__builtin_add_overflow(args.va_address, args.map_size, &end) ||
      end > kVmSizeBytes - kVaReservedTopBytes) {
    return Errno(EINVAL);
  }
  if ((args.flags & ~kMappingFlags) != 0 && (args.flags & ~kPrtFlags) != 0) return Errno(EINVAL);
  if (!is_known_operation(args.operation)) return Errno(EINVAL);
  if ((args.flags & AMDGPU_VM_DELAY_UPDATE) && args.vm_timeline_syncobj_out != 0) return Errno(EINVAL);

  BoRef bo;
  if (args.operation != AMDGPU_VA_OP_CLEAR && !(args.flags & AMDGPU_VM_PAGE_PRT))
    bo = TRY(lookup_bo(args.handle));
  for (const std::uint32_t handle : TRY(call.memory().read_array<std::uint32_t>(
           args.input_fence_syncobj_handles, std::min<std::uint32_t>(args.num_syncobj_handles, 1 << 20)))) {
    if (!syncobjs().find(handle)) return Errno(ENOENT);
  }

  GpuMapping mapping;
  mapping.start = args.va_address;
  mapping.size_bytes = args.map_size;
  mapping.bo = bo;
  mapping.bo_offset_bytes = args.offset_in_bo;
  mapping.gem_va_flags = args.flags;
  mapping.permissions = {(args.flags & AMDGPU_VM_PAGE_READABLE) != 0,
                         (args.flags & AMDGPU_VM_PAGE_WRITEABLE) != 0,
                         (args.flags & AMDGPU_VM_PAGE_EXECUTABLE) != 0};
  switch (args.operation) {
    case AMDGPU_VA_OP_MAP:
      TRY(vm_->map(std::move(mapping)));
      break;
    case AMDGPU_VA_OP_UNMAP:
      if (!bo) return Errno(ENOENT);
      TRY(vm_->unmap(*bo, args.va_address, false));
      break;
    case AMDGPU_VA_OP_CLEAR:
      vm_->clear(args.va_address, args.map_size);
      break;
    case AMDGPU_VA_OP_REPLACE:
      TRY(vm_->replace(std::move(mapping)));
      break;
  }
  // Page tables change at once: the timeline point, if asked for, is already reached.
  if (args.vm_timeline_syncobj_out != 0) {
    const drm::SyncobjRef syncobj = syncobjs().find(args.vm_timeline_syncobj_out);
    if (!syncobj) return Errno(ENOENT);
    if (args.vm_timeline_point == 0) {
      syncobj->replace(drm::Fence::signalled());
    } else {
      syncobj->add_point(drm::Fence::signalled(), args.vm_timeline_point);
    }
  }
  return 0;
}

}  // namespace understudy::kfd
