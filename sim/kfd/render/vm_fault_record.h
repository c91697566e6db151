// VmFaultRecord: the last fault of a render file's page tables: what AMDGPU_INFO_GPUVM_FAULT tells.
//
// Owner: AmdgpuFile, shared with its jobs. Units: device addresses. Errors: none. Thread-safety: locks
// itself. Mirrors: amdgpu_vm.c: struct amdgpu_vm_fault_info, amdgpu_vm_update_fault_cache.
#pragma once

#include <mutex>

#include "sim/kfd/gpu_vm.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {

class VmFaultRecord {
 public:
  void note(const GpuFault& fault) {
    // PERMISSION_FAULTS of VM_L2_PROTECTION_FAULT_STATUS: not valid, not readable, not writable, not
    // executable.
    constexpr unsigned kShift = 4;
    const std::uint32_t permissions =
        (fault.not_present ? 1u : 0u) | (fault.read_only ? 4u : 0u) | (fault.no_execute ? 8u : 0u);
    const std::lock_guard lock(mutex_);
    last_ = {fault.address, permissions << kShift, uapi::amdgpu::AMDGPU_VMHUB_TYPE_GFX};
  }
  uapi::amdgpu::drm_amdgpu_info_gpuvm_fault last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  uapi::amdgpu::drm_amdgpu_info_gpuvm_fault last_{};  // guarded by mutex_
};

}  // namespace understudy::kfd
