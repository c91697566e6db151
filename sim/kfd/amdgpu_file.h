// AmdgpuFile: one open of an amdgpu node: its GPU VM, contexts and BO lists.
//
// Owner: FileTable. Units: bytes. Errors: each handler mirrors its ioctl in amdgpu_kms.c's table.
// Thread-safety: handlers run in parallel; parts lock themselves. Mirrors: struct amdgpu_fpriv.
#pragma once

#include <memory>

#include "sim/drm/drm_file.h"
#include "sim/kfd/gpu.h"
#include "sim/kfd/gpu_vm.h"

namespace understudy::kfd {

class AmdgpuFile : public drm::DrmFile {
 public:
  AmdgpuFile(Gpu& gpu, drm::NodeType type, std::string label, dev_t device_number);
  ~AmdgpuFile() override;

  Gpu& gpu() const { return static_cast<Gpu&>(device()); }
  const std::shared_ptr<GpuVm>& vm() const { return vm_; }

  // ACQUIRE_VM: the VM becomes `process_key`'s compute VM. EINVAL when another KFD process object already has
  // it.
  Result<void> make_compute_vm(std::uint64_t process_key);

 private:
  const std::shared_ptr<GpuVm> vm_ = std::make_shared<GpuVm>();
  std::mutex compute_mutex_;
  std::uint64_t compute_process_ = 0;  // guarded by compute_mutex_; 0: graphics VM
};

}  // namespace understudy::kfd
