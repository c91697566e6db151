#include "sim/drm/syncobj.h"

#include "sim/core/machine.h"

namespace understudy::drm {

void Syncobj::replace(FenceRef fence) {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    binary_ = std::move(fence);
    points_.clear();
    signalled_point_floor_ = 0;
    ready = take_ready_locked();
  }
  for (const auto& callback : ready) callback();
}

void Syncobj::add_point(const FenceRef& fence, std::uint64_t point) {
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    std::vector<FenceRef> chain;
    if (!points_.empty()) {
      chain.push_back(points_.rbegin()->second);
    } else if (binary_) {
      chain.push_back(std::exchange(binary_, nullptr));
    }
    chain.push_back(fence);
    // A point that does not grow the timeline joins its end, as dma_fence_chain_init does with unordered
    // numbers.
    const std::uint64_t key = points_.empty() ? point : std::max(point, points_.rbegin()->first);
    points_[key] = Fence::merge(std::move(chain));
    while (points_.size() > 1 && points_.begin()->second->is_signalled()) {
      signalled_point_floor_ = points_.begin()->first;
      points_.erase(points_.begin());
    }
    ready = take_ready_locked();
  }
  for (const auto& callback : ready) callback();
}

FenceRef Syncobj::fence_at(std::uint64_t point) const {
  const std::lock_guard lock(mutex_);
  return fence_at_locked(point);
}

FenceRef Syncobj::fence_at_locked(std::uint64_t point) const {
  if (points_.empty()) return point == 0 ? binary_ : nullptr;
  if (point == 0) return points_.rbegin()->second;
  if (point <= signalled_point_floor_) return Fence::signalled();
  const auto found = points_.lower_bound(point);
  return found == points_.end() ? nullptr : found->second;
}

std::uint64_t Syncobj::query(bool last_submitted) const {
  const std::lock_guard lock(mutex_);
  if (points_.empty()) return 0;
  if (last_submitted) return points_.rbegin()->first;
  std::uint64_t signalled = signalled_point_floor_;
  for (const auto& [point, fence] : points_) {
    if (!fence->is_signalled()) break;
    signalled = point;
  }
  return signalled;
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
  const std::lock_guard lock(mutex_);
  waiters_.erase(id);
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
