#include "sim/virtio_gpu/guest/fence_wait.h"

#include <algorithm>
#include <utility>

#include "sim/core/machine.h"

namespace understudy::virtio_gpu {

Outcome FenceWait::start(Call& call, const std::vector<drm::FenceRef>& fences, const Patience& patience,
                         Continuation continuation) {
  if (std::ranges::all_of(fences, &drm::Fence::is_signalled)) return continuation(WaitEnd::kSignalled);

  const std::shared_ptr<FenceWait> wait(
      new FenceWait(call.shared_from_this(), drm::Fence::merge(fences), std::move(continuation)));
  if (patience.timeout_ns) {
    const Clock::TimerId timer =
        call.machine().clock().after(*patience.timeout_ns, [wait] { wait->end(WaitEnd::kTimedOut); });
    const std::lock_guard lock(wait->mutex_);
    wait->timer_ = timer;
  }
  const drm::Fence::CallbackId watch = wait->fence_->on_signal([wait] { wait->end(WaitEnd::kSignalled); });
  {
    const std::lock_guard lock(wait->mutex_);
    wait->watch_ = watch;
  }
  if (patience.interruptible == Interruptible::kYes)
    call.on_cancel([wait] { wait->end(WaitEnd::kInterrupted); });
  return Outcome::later();
}

void FenceWait::end(WaitEnd how) {
  Continuation continuation;
  Clock::TimerId timer = 0;
  drm::Fence::CallbackId watch = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!continuation_) return;
    continuation = std::exchange(continuation_, {});
    timer = timer_;
    watch = watch_;
  }
  // An end that outran start() finds no timer or watch yet; those then end nothing any more.
  if (timer != 0 && how != WaitEnd::kTimedOut) call_->machine().clock().cancel(timer);
  if (watch != 0 && how != WaitEnd::kSignalled) fence_->forget(watch);
  const Outcome outcome = continuation(how);
  if (!outcome.is_later()) call_->finish(outcome);
}

}  // namespace understudy::virtio_gpu
