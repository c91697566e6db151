#include "sim/kfd/render/ib_runner.h"

#include "sim/core/machine.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {

void run_when_ready(Gpu& gpu, const std::shared_ptr<GpuVm>&, const ClientRef&, const drm::FenceRef& after,
                    IbJob job) {
  after->on_signal([&gpu, job = std::move(job)] {
    gpu.machine().reactor().post([fence = job.fence] { fence->signal(ECANCELED); });
  });
}

}  // namespace understudy::kfd
