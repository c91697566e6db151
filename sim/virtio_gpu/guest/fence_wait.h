// FenceWait: a call that goes on when fences have signalled, a time has passed, or a signal came.
//
// Owner: itself, by the callbacks it registers, until it has continued. Units: nanoseconds.
// Errors: the continuation decides. Thread-safety: locks itself; the continuation runs once, without locks,
// on whichever thread ended the wait. Mirrors: dma_fence_wait(), dma_resv_wait_timeout() as blocking calls
// use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/clock.h"
#include "sim/drm/fence.h"

namespace understudy::virtio_gpu {

enum class WaitEnd : std::uint8_t { kSignalled, kTimedOut, kInterrupted };

class FenceWait : public std::enable_shared_from_this<FenceWait> {
 public:
  using Continuation = std::function<Outcome(WaitEnd)>;
  enum class Interruptible : std::uint8_t { kNo, kYes };
  struct Patience {
    std::optional<std::uint64_t> timeout_ns;
    Interruptible interruptible = Interruptible::kYes;
  };

  // Continues at once when all have signalled already; else the outcome is later().
  static Outcome start(Call& call, const std::vector<drm::FenceRef>& fences, const Patience& patience,
                       Continuation continuation);

 private:
  FenceWait(CallRef call, drm::FenceRef fence, Continuation continuation)
      : call_(std::move(call)), fence_(std::move(fence)), continuation_(std::move(continuation)) {}
  void end(WaitEnd how);

  const CallRef call_;
  const drm::FenceRef fence_;
  std::mutex mutex_;
  Continuation continuation_;         // guarded by mutex_; empty once it has run
  Clock::TimerId timer_ = 0;          // guarded by mutex_
  drm::Fence::CallbackId watch_ = 0;  // guarded by mutex_
};

}  // namespace understudy::virtio_gpu
