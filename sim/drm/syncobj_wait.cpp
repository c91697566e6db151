#include "sim/drm/syncobj_wait.h"

#include "sim/core/machine.h"
#include "uapi/drm.h"

namespace understudy::drm {

using namespace uapi::drm;

SyncobjWait::SyncobjWait(CallRef call, std::vector<Entry> entries, std::uint32_t flags,
                         std::function<void(std::uint32_t)> set_first)
    : call_(std::move(call)),
      entries_(std::move(entries)),
      flags_(flags),
      set_first_(std::move(set_first)),
      done_(entries_.size()) {}

Outcome SyncobjWait::start(Call& call, std::vector<Entry> entries, std::uint32_t flags,
                           std::int64_t timeout_ns, std::function<void(std::uint32_t)> set_first) {
  constexpr std::uint32_t kMayWaitForSubmit =
      DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
  if (!(flags & kMayWaitForSubmit)) {
    for (const Entry& entry : entries) {
      if (!entry.syncobj->fence_at(entry.point)) return Errno(EINVAL);
    }
  }
  const std::shared_ptr<SyncobjWait> wait(
      new SyncobjWait(call.shared_from_this(), std::move(entries), flags, std::move(set_first)));
  for (std::uint32_t index = 0; index < wait->entries_.size(); ++index) wait->watch(index);

  Clock& clock = call.machine().clock();
  // An absolute time; the past (also any negative number) means: look once.
  const std::uint64_t deadline_ns = timeout_ns > 0 ? static_cast<std::uint64_t>(timeout_ns) : 0;
  if (deadline_ns <= clock.now_ns()) {
    wait->end(Errno(ETIME));
    return Outcome::later();
  }
  {
    const std::lock_guard lock(wait->mutex_);
    if (!wait->ended_) wait->timer_ = clock.at(deadline_ns, [wait] { wait->end(Errno(ETIME)); });
  }
  call.on_cancel([wait] { wait->end(Errno(EINTR)); });
  return Outcome::later();
}

void SyncobjWait::watch(std::uint32_t index) {
  const Entry& entry = entries_[index];
  const FenceRef fence = entry.syncobj->fence_at(entry.point);
  const std::shared_ptr<SyncobjWait> self = shared_from_this();
  if (!fence) {
    const std::uint64_t id = entry.syncobj->on_submitted(entry.point, [self, index] { self->watch(index); });
    const std::lock_guard lock(mutex_);
    if (id != 0) submit_waits_.emplace_back(entry.syncobj, id);
    return;
  }
  if (wants(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)) {
    entry_done(index);
    return;
  }
  const Fence::CallbackId id = fence->on_signal([self, index] { self->entry_done(index); });
  const std::lock_guard lock(mutex_);
  if (id != 0) fence_waits_.emplace_back(fence, id);
}

void SyncobjWait::entry_done(std::uint32_t index) {
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || done_[index]) return;
    done_[index] = true;
    if (done_count_++ == 0) set_first_(index);
    complete = !wants(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL) || done_count_ == entries_.size();
  }
  if (complete) end(0);
}

void SyncobjWait::end(Outcome outcome) {
  std::vector<std::pair<SyncobjRef, std::uint64_t>> submit_waits;
  std::vector<std::pair<FenceRef, Fence::CallbackId>> fence_waits;
  Clock::TimerId timer = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    submit_waits.swap(submit_waits_);
    fence_waits.swap(fence_waits_);
    timer = timer_;
  }
  if (timer != 0) call_->machine().clock().cancel(timer);
  for (const auto& [syncobj, id] : submit_waits) syncobj->forget(id);
  for (const auto& [fence, id] : fence_waits) fence->forget(id);
  call_->finish(outcome);
}

}  // namespace understudy::drm
