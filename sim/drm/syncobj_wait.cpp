#include "sim/drm/syncobj_wait.h"

#include "uapi/drm.h"

namespace understudy::drm {

using namespace uapi::drm;

SyncobjWait::SyncobjWait(Call& call, std::vector<Entry> entries, std::uint32_t flags, Ended ended)
    : wait_(std::make_shared<CallWait>(call)),
      entries_(std::move(entries)),
      flags_(flags),
      ended_(std::move(ended)) {}

Outcome SyncobjWait::start(Call& call, std::vector<Entry> entries, std::uint32_t flags,
                           std::int64_t timeout_ns, Ended ended) {
  constexpr std::uint32_t kMayWaitForSubmit =
      DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
  if (!(flags & kMayWaitForSubmit)) {
    for (const Entry& entry : entries) {
      if (!entry.syncobj->fence_at(entry.point)) return Errno(EINVAL);
    }
  }
  const std::shared_ptr<SyncobjWait> self(new SyncobjWait(call, std::move(entries), flags, std::move(ended)));
  for (std::uint32_t index = 0; index < self->entries_.size(); ++index) self->watch(index);
  // An absolute time; the past (also any negative number) means: look once.
  self->wait_->arm(timeout_ns > 0 ? static_cast<std::uint64_t>(timeout_ns) : 0,
                   [] { return Outcome(Errno(ETIME)); });
  return Outcome::later();
}

void SyncobjWait::watch(std::uint32_t index) {
  const Entry& entry = entries_[index];
  const FenceRef fence = entry.syncobj->fence_at(entry.point);
  const std::shared_ptr<SyncobjWait> self = shared_from_this();
  if (!fence) {
    const std::uint64_t id = entry.syncobj->on_submitted(entry.point, [self, index] { self->watch(index); });
    wait_->on_end([syncobj = entry.syncobj, id] { syncobj->forget(id); });
  } else if (wants(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)) {
    entry_done(index);
  } else {
    const Fence::CallbackId id = fence->on_signal([self, index] { self->entry_done(index); });
    wait_->on_end([fence, id] { fence->forget(id); });
  }
}

void SyncobjWait::entry_done(std::uint32_t index) {
  std::uint32_t first = index;
  {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = index;
    first = *first_;
    ++done_count_;
    if (wants(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL) && done_count_ < entries_.size()) return;
  }
  wait_->end([&] { return ended_(first); });
}

}  // namespace understudy::drm
