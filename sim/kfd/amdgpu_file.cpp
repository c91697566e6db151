#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {

AmdgpuFile::AmdgpuFile(Gpu& gpu, drm::NodeType type, std::string label, dev_t device_number)
    : DrmFile(gpu, type, std::move(label), device_number) {}

AmdgpuFile::~AmdgpuFile() = default;

Result<BoRef> AmdgpuFile::lookup_bo(std::uint32_t handle) {
  return std::static_pointer_cast<AmdgpuBo>(TRY(handles().lookup(drm::GemHandle{handle})));
}

Result<void> AmdgpuFile::make_compute_vm(std::uint64_t process_key) {
  const std::lock_guard lock(compute_mutex_);
  if (compute_process_ != 0 && compute_process_ != process_key) return Errno(EINVAL);
  compute_process_ = process_key;
  return {};
}

void AmdgpuFile::release() {
  for (const ContextRef& context : contexts_.clear()) gpu().stable_pstate().context_gone(*context);
  bo_lists_.clear();
  DrmFile::release();
}

}  // namespace understudy::kfd
