#include "sim/drm/syncobj.h"

#include <utility>

#include "sim/core/machine.h"

namespace understudy::drm {

void Syncobj::replace(FenceRef fence) {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    binary_ = std::move(fence);
    timeline_.reset();
    ready = take_ready_locked();
  }
  for (const auto& callback : ready) callback();
}

void Syncobj::add_point(const FenceRef& fence, std::uint64_t point) {
  std::shared_ptr<Timeline> timeline;
  {
    const std::lock_guard lock(mutex_);
    if (!timeline_) {
      timeline_ = std::make_shared<Timeline>();
      if (const FenceRef before = std::exchange(binary_, nullptr)) timeline_->add(0, before);
    }
    timeline = timeline_;
  }
  // Without the lock: earlier points may become done here, and those who waited for them come back.
  timeline->add(point, fence);
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    ready = take_ready_locked();
  }
  for (const auto& callback : ready) callback();
}

void Syncobj::set_point(const FenceRef& fence, std::uint64_t point) {
  if (point == 0) {
    replace(fence);
  } else {
    add_point(fence, point);
  }
}

FenceRef Syncobj::fence_at(std::uint64_t point) const {
  const std::lock_guard lock(mutex_);
  return fence_at_locked(point);
}

FenceRef Syncobj::fence_at_locked(std::uint64_t point) const {
  if (timeline_) return timeline_->fence_at(point);
  return point == 0 ? binary_ : nullptr;
}

std::uint64_t Syncobj::query(bool last_submitted) const {
  const std::lock_guard lock(mutex_);
  if (!timeline_) return 0;
  return last_submitted ? timeline_->last_added() : timeline_->last_done();
}

std::vector<std::function<void()>> Syncobj::take_ready_locked() {
  std::vector<std::function<void()>> ready;
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (fence_at_locked(waiter->second.first)) {
      ready.push_back(std::move(waiter->second.second));
      waiter = waiters_.erase(waiter);
    } else {
      ++waiter;
    }
  }
  return ready;
}

std::uint64_t Syncobj::on_submitted(std::uint64_t point, std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!fence_at_locked(point)) {
      waiters_.emplace(next_waiter_, std::pair(point, std::move(callback)));
      return next_waiter_++;
    }
  }
  callback();
  return 0;
}

void Syncobj::forget(std::uint64_t id) {
  decltype(waiters_)::node_type forgotten;
  const std::lock_guard lock(mutex_);
  forgotten = waiters_.extract(id);
}

Result<std::uint32_t> Syncobjs::create_handle(const Call* call, const SyncobjRef& syncobj) {
  LedgerEntry entry;
  const std::lock_guard lock(mutex_);
  std::uint32_t handle = 1;
  for (const auto& [taken, slot] : slots_) {
    if (taken != handle) break;
    ++handle;
  }
  if (call != nullptr) {
    entry = call->machine().ledger().open(ObjectKind::kSyncobj, call,
                                          "syncobj " + std::to_string(handle) + " on " + owner_label_);
  }
  slots_[handle] = {syncobj, std::move(entry)};
  return handle;
}

SyncobjRef Syncobjs::find(std::uint32_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(handle);
  return found == slots_.end() ? nullptr : found->second.syncobj;
}

Result<void> Syncobjs::destroy(const Call&, std::uint32_t handle) {
  std::map<std::uint32_t, Slot>::node_type slot;
  const std::lock_guard lock(mutex_);
  slot = slots_.extract(handle);
  if (!slot) return Errno(EINVAL);
  return {};
}

void Syncobjs::destroy_all() {
  std::map<std::uint32_t, Slot> slots;
  const std::lock_guard lock(mutex_);
  slots.swap(slots_);
}

}  // namespace understudy::drm
