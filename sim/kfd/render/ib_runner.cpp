#include "sim/kfd/render/ib_runner.h"

#include <cstring>

#include "sim/core/machine.h"
#include "sim/kfd/engine/indirect_buffer.h"
#include "sim/kfd/gpu.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {
namespace {

// One turn's work, and how long a waiting buffer rests before it looks again.
constexpr std::uint64_t kTurnBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kRestNs = 200'000;

// A submission on its way: its buffers run one after the other, in turns on the machine's threads.
class IbRun : public std::enable_shared_from_this<IbRun> {
 public:
  IbRun(Gpu& gpu, std::shared_ptr<GpuVm> vm, IbJob job)
      : gpu_(gpu), vm_(std::move(vm)), job_(std::move(job)) {}

  void turn() {
    while (next_ < job_.ibs.size()) {
      if (!current_) begin(job_.ibs[next_]);
      engine::Budget budget(kTurnBytes);
      switch (current_->run(budget)) {
        case engine::RunStatus::kIdle:
          current_.reset();
          ++next_;
          break;
        case engine::RunStatus::kYield:
          gpu_.machine().reactor().post([self = shared_from_this()] { self->turn(); });
          return;
        case engine::RunStatus::kWaiting:
          gpu_.machine().clock().after(kRestNs, [self = shared_from_this()] {
            self->gpu_.machine().reactor().post([self] { self->turn(); });
          });
          return;
        default:
          // As a job lost to the reset that follows a hang or a fault.
          job_.fence->signal(ECANCELED);
          return;
      }
    }
    finish();
  }

 private:
  void begin(const IbJob::Ib& ib) {
    const auto kind = ib.ip_type == uapi::amdgpu::AMDGPU_HW_IP_DMA ? engine::IndirectBufferKind::kSdma
                                                                   : engine::IndirectBufferKind::kPm4;
    current_ = std::make_unique<engine::IndirectBuffer>(gpu_, vm_, kind, ib.address,
                                                        static_cast<std::uint32_t>(ib.size_bytes / 4));
  }
  void finish() {
    if (job_.user_fence_bo) {
      (void)job_.user_fence_bo->write_pages(job_.user_fence_offset_bytes,
                                            std::as_bytes(std::span(&job_.user_fence_value, 1)));
    }
    job_.fence->signal();
  }

  Gpu& gpu_;
  const std::shared_ptr<GpuVm> vm_;
  const IbJob job_;
  std::size_t next_ = 0;
  std::unique_ptr<engine::IndirectBuffer> current_;
};

}  // namespace

void run_when_ready(Gpu& gpu, const std::shared_ptr<GpuVm>& vm, const drm::FenceRef& after, IbJob job) {
  auto run = std::make_shared<IbRun>(gpu, vm, std::move(job));
  after->on_signal([&gpu, run] { gpu.machine().reactor().post([run] { run->turn(); }); });
}

}  // namespace understudy::kfd
