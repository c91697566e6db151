#include "sim/kfd/render/ib_runner.h"

#include "sim/core/machine.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {
namespace {

// One turn's work, and how long a waiting buffer rests before it looks again.
constexpr std::uint64_t kTurnBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kRestNs = 200'000;
constexpr std::uint64_t kLockupTimeoutNs = 10'000'000'000;     // amdgpu_device_get_job_timeout_settings
constexpr std::uint64_t kFenceFallbackNs = 500'000'000;        // AMDGPU_FENCE_JIFFIES_TIMEOUT
constexpr std::uint64_t kAddressMask = 0x0000ffffffffffffULL;  // AMDGPU_GMC_HOLE_MASK

class IbRun : public std::enable_shared_from_this<IbRun> {
 public:
  IbRun(Gpu& gpu, IbJob job) : gpu_(gpu), job_(std::move(job)) {}

  void start() {
    progress_at_ns_ = now_ns();
    post_turn();
  }

 private:
  std::uint64_t now_ns() const { return gpu_.machine().clock().now_ns(); }
  PointDecision at(FaultPoint point) const {
    return gpu_.machine().hooks().at(point, gpu_.render_node_path(), job_.client.get());
  }
  void post_turn() {
    gpu_.machine().reactor().post([self = shared_from_this()] { self->turn(); });
  }
  void rest() {
    gpu_.machine().clock().after(kRestNs, [self = shared_from_this()] { self->post_turn(); });
  }

  void turn() {
    for (;;) {
      if (!current_) {
        if (next_ == job_.ibs.size()) return complete();
        if (at(FaultPoint::kQueueProgress) == PointDecision::kStick) return hang();
        const IbJob::Ib& ib = job_.ibs[next_++];
        current_ = std::make_unique<engine::IndirectBuffer>(gpu_, job_.vm, ib.kind, ib.address & kAddressMask,
                                                            ib.size_dw);
      }
      engine::Budget budget(kTurnBytes);
      switch (current_->run(budget)) {
        case engine::RunStatus::kIdle:
          current_.reset();
          break;
        case engine::RunStatus::kYield:
          progress_at_ns_ = now_ns();
          return post_turn();
        case engine::RunStatus::kWaiting:
          if (now_ns() - progress_at_ns_ >= kLockupTimeoutNs) return lose(ETIME);
          return rest();
        case engine::RunStatus::kFault:
          job_.faults->note(*current_->fault());
          return lose(ECANCELED);
        case engine::RunStatus::kBadPacket:
        case engine::RunStatus::kDispatch:
          return lose(ECANCELED);
      }
    }
  }

  // The ring's end-of-pipe: the user's fence, then the interrupt that signals ours.
  void complete() {
    const PointDecision completion = at(FaultPoint::kCompletion);
    if (completion == PointDecision::kDrop || completion == PointDecision::kStick) return hang();
    if (job_.user_fence_bo) {
      job_.user_fence_bo->write_pages(job_.user_fence_offset_bytes,
                                      std::as_bytes(std::span(&job_.user_fence_value, 1)));
    }
    if (at(FaultPoint::kInterrupt) == PointDecision::kDrop) {
      // A lost interrupt is noticed by the fallback timer.
      gpu_.machine().clock().after(kFenceFallbackNs,
                                   [self = shared_from_this()] { self->job_.fence->signal(); });
      return;
    }
    job_.fence->signal();
  }
  void hang() {
    gpu_.machine().clock().after(kLockupTimeoutNs, [self = shared_from_this()] { self->lose(ETIME); });
  }
  // As a job lost to the ring's reset: its context is to blame.
  void lose(int error) {
    current_.reset();
    job_.context->mark_guilty();
    job_.fence->signal(error);
  }

  Gpu& gpu_;
  const IbJob job_;
  std::size_t next_ = 0;
  std::unique_ptr<engine::IndirectBuffer> current_;
  std::uint64_t progress_at_ns_ = 0;
};

}  // namespace

void run_when_ready(Gpu& gpu, const drm::FenceRef& after, IbJob job) {
  const auto run = std::make_shared<IbRun>(gpu, std::move(job));
  after->on_signal([run] { run->start(); });
}

}  // namespace understudy::kfd
