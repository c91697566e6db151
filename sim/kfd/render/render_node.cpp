#include "sim/kfd/render/render_node.h"

#include <sys/sysmacros.h>

#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr unsigned kDrmMajor = 226;

class AmdgpuNode : public Node {
 public:
  AmdgpuNode(std::shared_ptr<Gpu> gpu, drm::NodeType type, unsigned minor)
      : gpu_(std::move(gpu)),
        type_(type),
        path_((type == drm::NodeType::kRender ? "dri/renderD" : "dri/card") + std::to_string(minor)),
        device_number_(::makedev(kDrmMajor, minor)) {}

  std::string path() const override { return path_; }
  dev_t device_number() const override { return device_number_; }
  Result<FileRef> open(const Caller&, int) override {
    if (gpu_->unplugged()) return Errno(ENODEV);
    return FileRef(std::make_shared<AmdgpuFile>(*gpu_, type_, path_, device_number_));
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const drm::NodeType type_;
  const std::string path_;
  const dev_t device_number_;
};

// User queues need firmware that no profile here has: amdgpu_userq_ioctl answers for a device without them.
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
    unsupported<Userq>(ENOTSUP),
    unsupported<UserqSignal>(ENOTSUP),
    unsupported<UserqWait>(ENOTSUP),
    row<GemListHandles, &AmdgpuFile::gem_list_handles>(),
    unsupported<ProcOptions>(EINVAL),
};

}  // namespace

std::span<const IoctlRow> Gpu::driver_ioctls() const {
  return kAmdgpuIoctls;
}

void add_render_nodes(Machine& machine, const std::shared_ptr<Gpu>& gpu) {
  machine.add_node(std::make_shared<AmdgpuNode>(gpu, drm::NodeType::kRender, gpu->placement().render_minor));
  machine.add_node(std::make_shared<AmdgpuNode>(gpu, drm::NodeType::kPrimary, gpu->placement().card_minor));
}

}  // namespace understudy::kfd
