// GEM_VA. Mirrors amdgpu_gem.c: amdgpu_gem_va_ioctl.
#include "sim/core/machine.h"
#include "sim/drm/fence_wait.h"
#include "sim/drm/syncobj.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/render/address_limits.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint64_t kPageMask = 4095;
constexpr std::uint32_t kMappingFlags = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE |
                                        AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE |
                                        AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC;
constexpr std::uint32_t kPrtFlags = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT;
// The kernel has no limit of its own, but neither could it serve more.
constexpr std::uint32_t kMaxInputFences = 1 << 20;

bool is_prt(const drm_amdgpu_gem_va& args) {
  return (args.flags & AMDGPU_VM_PAGE_PRT) != 0;
}

// Checks that need nothing but the arguments; the address comes out without its sign extension.
Result<void> check(drm_amdgpu_gem_va& args) {
  if (args.va_address < kVaReservedBottomBytes) return Errno(EINVAL);
  if (args.va_address >= kHoleStart && args.va_address < kHoleEnd) return Errno(EINVAL);
  args.va_address &= kHoleMask;
  std::uint64_t end = 0;
  if (__builtin_add_overflow(args.va_address, args.map_size, &end) ||
      end > kVmSizeBytes - kVaReservedTopBytes) {
    return Errno(EINVAL);
  }
  if ((args.flags & ~kMappingFlags) != 0 && (args.flags & ~kPrtFlags) != 0) return Errno(EINVAL);
  if (args.operation < AMDGPU_VA_OP_MAP || args.operation > AMDGPU_VA_OP_REPLACE) return Errno(EINVAL);
  if ((args.flags & AMDGPU_VM_DELAY_UPDATE) && args.vm_timeline_syncobj_out != 0) return Errno(EINVAL);
  return {};
}

// amdgpu_gem_add_input_fence.
Result<drm::FenceRef> input_fences(AmdgpuFile& file, Call& call, const drm_amdgpu_gem_va& args) {
  if (args.num_syncobj_handles > kMaxInputFences) return Errno(ENOMEM);
  const auto handles = TRY(
      call.memory().read_array<std::uint32_t>(args.input_fence_syncobj_handles, args.num_syncobj_handles));
  std::vector<drm::FenceRef> fences;
  for (const std::uint32_t handle : handles) {
    if (handle == 0) return Errno(EINVAL);
    const drm::SyncobjRef syncobj = file.syncobjs().find(handle);
    if (!syncobj) return Errno(ENOENT);
    const drm::FenceRef fence = syncobj->fence_at(0);
    if (!fence) return Errno(EINVAL);
    fences.push_back(fence);
  }
  return drm::Fence::merge(fences);
}

GpuMapping mapping_of(const drm_amdgpu_gem_va& args, BoRef bo) {
  GpuMapping mapping;
  mapping.start = args.va_address;
  mapping.size_bytes = args.map_size;
  mapping.bo = std::move(bo);
  mapping.bo_offset_bytes = args.offset_in_bo;
  mapping.gem_va_flags = args.flags;
  // Pages without backing swallow writes and read as zero.
  mapping.permissions = {is_prt(args) || (args.flags & AMDGPU_VM_PAGE_READABLE) != 0,
                         is_prt(args) || (args.flags & AMDGPU_VM_PAGE_WRITEABLE) != 0,
                         (args.flags & AMDGPU_VM_PAGE_EXECUTABLE) != 0};
  return mapping;
}

Result<void> unmap(GpuVm& vm, const drm_amdgpu_gem_va& args, const BoRef& bo) {
  if (bo) return vm.unmap(*bo, args.va_address, /*made_by_kfd=*/false);
  const std::optional<GpuMapping> mapping = vm.find_start(args.va_address);
  if (!mapping || mapping->bo) return Errno(ENOENT);
  vm.clear(mapping->start, mapping->size_bytes);
  return {};
}

// amdgpu_vm_bo_clear_mappings checks the range as a mapping's.
Result<void> clear(GpuVm& vm, const drm_amdgpu_gem_va& args) {
  if (((args.va_address | args.map_size) & kPageMask) != 0 || args.map_size == 0) return Errno(EINVAL);
  vm.clear(args.va_address, args.map_size);
  return {};
}

Result<void> operate(GpuVm& vm, const drm_amdgpu_gem_va& args, const BoRef& bo) {
  switch (args.operation) {
    case AMDGPU_VA_OP_MAP:
      return vm.map(mapping_of(args, bo));
    case AMDGPU_VA_OP_UNMAP:
      return unmap(vm, args, bo);
    case AMDGPU_VA_OP_CLEAR:
      return clear(vm, args);
    default:
      return vm.replace(mapping_of(args, bo));
  }
}

}  // namespace

Outcome AmdgpuFile::gem_va(Call& call, drm_amdgpu_gem_va& args) {
  TRY(check(args));
  BoRef bo;
  if (args.operation != AMDGPU_VA_OP_CLEAR && !is_prt(args)) bo = TRY(lookup_bo(args.handle));
  const drm::FenceRef inputs = TRY(input_fences(*this, call, args));
  drm::SyncobjRef timeline;
  if (args.vm_timeline_syncobj_out != 0) {
    timeline = syncobjs().find(args.vm_timeline_syncobj_out);
    if (!timeline) return Errno(ENOENT);
  }
  constexpr std::uint64_t kForEver = ~std::uint64_t{0};
  return drm::wait_for_fence(call, inputs, kForEver, [&args, vm = vm_, bo, timeline](bool) -> Outcome {
    TRY(operate(*vm, args, bo));
    // Page tables change at once: the point, if asked for, is already reached.
    if (timeline) timeline->set_point(drm::Fence::signalled(), args.vm_timeline_point);
    return 0;
  });
}

}  // namespace understudy::kfd
