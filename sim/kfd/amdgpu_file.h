// AmdgpuFile: one open of an amdgpu node: its GPU VM, contexts, BO lists, and the driver's ioctl handlers.
//
// Owner: FileTable. Units: bytes. Errors: each handler mirrors its ioctl in amdgpu_drv.c's table.
// Thread-safety: handlers run in parallel; parts lock themselves. Mirrors: struct amdgpu_fpriv.
//
// Handlers by topic in render/: info.cpp, gem.cpp, va.cpp, contexts.cpp, bo_lists.cpp, submission.cpp,
// fence_ioctls.cpp.
#pragma once

#include <memory>

#include "sim/drm/drm_file.h"
#include "sim/kfd/gpu.h"
#include "sim/kfd/gpu_vm.h"
#include "sim/kfd/render/bo_lists.h"
#include "sim/kfd/render/contexts.h"
#include "sim/kfd/render/vm_fault_record.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {

class AmdgpuFile : public drm::DrmFile {
 public:
  AmdgpuFile(Gpu& gpu, drm::NodeType type, std::string label, dev_t device_number);
  ~AmdgpuFile() override;

  Gpu& gpu() const { return static_cast<Gpu&>(device()); }
  const std::shared_ptr<GpuVm>& vm() const { return vm_; }
  Contexts& contexts() { return contexts_; }
  const BoLists& bo_lists() const { return bo_lists_; }
  const std::shared_ptr<VmFaultRecord>& faults() const { return faults_; }
  Result<BoRef> lookup_bo(std::uint32_t handle);  // ENOENT
  void release() override;

  // ACQUIRE_VM: the VM becomes `process_key`'s compute VM. EINVAL when another KFD process object already has
  // it.
  Result<void> make_compute_vm(std::uint64_t process_key);

  Outcome gem_create(Call& call, uapi::amdgpu::drm_amdgpu_gem_create& args);
  Outcome gem_mmap(Call& call, uapi::amdgpu::drm_amdgpu_gem_mmap& args);
  Outcome gem_userptr(Call& call, uapi::amdgpu::drm_amdgpu_gem_userptr& args);
  Outcome gem_op(Call& call, uapi::amdgpu::drm_amdgpu_gem_op& args);
  Outcome gem_metadata(Call& call, uapi::amdgpu::drm_amdgpu_gem_metadata& args);
  Outcome gem_wait_idle(Call& call, uapi::amdgpu::drm_amdgpu_gem_wait_idle& args);
  Outcome gem_list_handles(Call& call, uapi::amdgpu::drm_amdgpu_gem_list_handles& args);
  Outcome gem_va(Call& call, uapi::amdgpu::drm_amdgpu_gem_va& args);
  Outcome vm_ioctl(Call& call, uapi::amdgpu::drm_amdgpu_vm& args);
  Outcome info(Call& call, uapi::amdgpu::drm_amdgpu_info& args);
  Outcome ctx(Call& call, uapi::amdgpu::drm_amdgpu_ctx& args);
  Outcome sched(Call& call, uapi::amdgpu::drm_amdgpu_sched& args);
  Outcome bo_list(Call& call, uapi::amdgpu::drm_amdgpu_bo_list& args);
  Outcome cs(Call& call, uapi::amdgpu::drm_amdgpu_cs& args);
  Outcome wait_cs(Call& call, uapi::amdgpu::drm_amdgpu_wait_cs& args);
  Outcome wait_fences(Call& call, uapi::amdgpu::drm_amdgpu_wait_fences& args);
  Outcome fence_to_handle(Call& call, uapi::amdgpu::drm_amdgpu_fence_to_handle& args);

 private:
  const std::shared_ptr<GpuVm> vm_ = std::make_shared<GpuVm>();
  const std::shared_ptr<VmFaultRecord> faults_ = std::make_shared<VmFaultRecord>();
  Contexts contexts_;
  BoLists bo_lists_;
  std::mutex compute_mutex_;
  std::uint64_t compute_process_ = 0;  // guarded by compute_mutex_; 0: graphics VM
};

}  // namespace understudy::kfd
