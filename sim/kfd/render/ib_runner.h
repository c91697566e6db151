// IbRun: a job of indirect buffers on its way through the packet processors, off the ioctl's thread.
//
// Owner: itself until its fence is signalled. Units: device addresses and bytes. Errors: see IbJob::fence.
// Thread-safety: the parts of one job run one after the other, on the machine's threads.
// Mirrors: amdgpu_job.c, amdgpu_ib.c.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/core/client.h"
#include "sim/drm/fence.h"
#include "sim/kfd/amdgpu_bo.h"
#include "sim/kfd/engine/indirect_buffer.h"
#include "sim/kfd/gpu_vm.h"
#include "sim/kfd/render/contexts.h"
#include "sim/kfd/render/vm_fault_record.h"

namespace understudy::kfd {

struct IbJob {
  struct Ib {
    std::uint64_t address = 0;
    std::uint32_t size_dw = 0;
    engine::IndirectBufferKind kind = engine::IndirectBufferKind::kSdma;
  };
  std::vector<Ib> ibs;
  std::vector<BoRef> bos;  // kept alive
  ContextRef context;      // becomes guilty when the job is lost
  std::shared_ptr<GpuVm> vm;
  std::shared_ptr<VmFaultRecord> faults;
  ClientRef client;
  // Signalled with ECANCELED after a fault or a bad packet, with ETIME after a hang of ten seconds.
  drm::FenceRef fence;
  BoRef user_fence_bo;  // receives user_fence_value when done; may be null
  std::uint64_t user_fence_offset_bytes = 0;
  std::uint64_t user_fence_value = 0;
};

// Runs the job once `after` has signalled.
void run_when_ready(Gpu& gpu, const drm::FenceRef& after, IbJob job);

}  // namespace understudy::kfd
