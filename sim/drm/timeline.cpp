#include "sim/drm/timeline.h"

#include <algorithm>
#include <vector>

namespace understudy::drm {

void Timeline::add(std::uint64_t point, const FenceRef& fence) {
  {
    const std::lock_guard lock(mutex_);
    if (point <= last_added_) {
      // The kernel starts a new context then: every point waits for this fence too.
      for (Entry& earlier : pending_) earlier.point = 0;
      last_done_ = 0;
    }
    last_added_ = std::max(last_added_, point);
    pending_.push_back({last_added_, fence, std::make_shared<Fence>("dma_fence_chain", "unbound")});
  }
  fence->on_signal([self = shared_from_this()] { self->advance(); });
}

void Timeline::advance() {
  std::vector<FenceRef> done;
  {
    const std::lock_guard lock(mutex_);
    while (!pending_.empty() && pending_.front().own->is_signalled()) {
      last_done_ = pending_.front().point;
      done.push_back(std::move(pending_.front().done));
      pending_.pop_front();
    }
  }
  for (const FenceRef& fence : done) fence->signal();
}

FenceRef Timeline::fence_at(std::uint64_t point) const {
  const std::lock_guard lock(mutex_);
  if (point > last_added_) return nullptr;
  if (point == 0) return pending_.empty() ? Fence::signalled() : pending_.back().done;
  if (point <= last_done_) return Fence::signalled();
  const auto found = std::lower_bound(pending_.begin(), pending_.end(), point,
                                      [](const Entry& entry, std::uint64_t at) { return entry.point < at; });
  return found->done;
}

std::uint64_t Timeline::last_added() const {
  const std::lock_guard lock(mutex_);
  return last_added_;
}

std::uint64_t Timeline::last_done() const {
  const std::lock_guard lock(mutex_);
  return last_done_;
}

}  // namespace understudy::drm
