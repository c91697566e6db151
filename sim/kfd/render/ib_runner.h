// Runs the indirect buffers of a command submission through the packet processors, off the ioctl's thread.
//
// Owner: the job owns itself until its fence is signalled. Units: bytes and device addresses. Errors: a fault
// or bad packet signals the fence with ECANCELED, as a job lost to a GPU reset. Thread-safety: jobs of one
// file may run on several threads; their order is given by fences. Mirrors: amdgpu_job.c, amdgpu_ib.c.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/drm/fence.h"
#include "sim/kfd/amdgpu_bo.h"
#include "sim/kfd/gpu_vm.h"

namespace understudy::kfd {

struct IbJob {
  struct Ib {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t ip_type = 0;
  };
  std::vector<Ib> ibs;
  std::vector<BoRef> bos;
  drm::FenceRef fence;
  BoRef user_fence_bo;  // receives user_fence_value when done; may be null
  std::uint64_t user_fence_offset_bytes = 0;
  std::uint64_t user_fence_value = 0;
};

void run_when_ready(Gpu& gpu, const std::shared_ptr<GpuVm>& vm, const drm::FenceRef& after, IbJob job);

}  // namespace understudy::kfd
