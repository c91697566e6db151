#include "sim/kfd/render/render_node.h"

#include "sim/drm/node.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

// The kernel's own ENOTSUPP, which has no name in user space: the answer of a GPU whose user queues are not
// enabled (amdgpu_userq.c: amdgpu_userq_enabled), as those of every GPU here.
constexpr int kErrnoNotSupp = 524;

constexpr IoctlRow kAmdgpuIoctls[] = {
    row<GemCreate, &AmdgpuFile::gem_create>(),
    row<GemMmap, &AmdgpuFile::gem_mmap>(),
    row<Ctx, &AmdgpuFile::ctx>(),
    row<BoList, &AmdgpuFile::bo_list>(),
    row<Cs, &AmdgpuFile::cs>(),
    row<Info, &AmdgpuFile::info>(),
    row<GemMetadata, &AmdgpuFile::gem_metadata>(),
    row<GemWaitIdle, &AmdgpuFile::gem_wait_idle>(),
    row<GemVa, &AmdgpuFile::gem_va>(),
    row<WaitCs, &AmdgpuFile::wait_cs>(),
    row<GemOp, &AmdgpuFile::gem_op>(),
    row<GemUserptr, &AmdgpuFile::gem_userptr>(),
    row<WaitFences, &AmdgpuFile::wait_fences>(),
    row<Vm, &AmdgpuFile::vm_ioctl>(),
    row<FenceToHandle, &AmdgpuFile::fence_to_handle>(),
    row<Sched, &AmdgpuFile::sched>(),
    unsupported<Userq>(kErrnoNotSupp),
    unsupported<UserqSignal>(kErrnoNotSupp),
    unsupported<UserqWait>(kErrnoNotSupp),
    row<GemListHandles, &AmdgpuFile::gem_list_handles>(),
    unsupported<ProcOptions>(EINVAL),
};

}  // namespace

std::span<const IoctlRow> amdgpu_ioctls() {
  return kAmdgpuIoctls;
}

std::span<const IoctlRow> Gpu::driver_ioctls() const {
  return kAmdgpuIoctls;
}

void add_render_nodes(Machine& machine, const std::shared_ptr<Gpu>& gpu) {
  const auto make_file = [gpu](const drm::DrmNode& node,
                               const Caller&) -> Result<std::shared_ptr<drm::DrmFile>> {
    return std::shared_ptr<drm::DrmFile>(
        std::make_shared<AmdgpuFile>(*gpu, node.type(), node.path(), node.device_number()));
  };
  machine.add_node(
      std::make_shared<drm::DrmNode>(gpu, drm::NodeType::kRender, gpu->placement().render_minor, make_file));
  machine.add_node(
      std::make_shared<drm::DrmNode>(gpu, drm::NodeType::kPrimary, gpu->placement().card_minor, make_file));
}

}  // namespace understudy::kfd
