// Syncobj: a container for a fence that can be replaced (binary) or grown along a timeline; Syncobjs: the
// handles of one file.
//
// Owner: Syncobj is shared by handles, descriptors and drivers; Syncobjs belongs to a DrmFile. Units: points
// are timeline values, 0 means "the whole". Errors: ENOENT/EINVAL as the ioctls say. Thread-safety: all lock
// themselves. Mirrors: drm_syncobj.c.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/ledger.h"
#include "sim/drm/fence.h"
#include "sim/drm/timeline.h"

namespace understudy::drm {

class Syncobj {
 public:
  // Replaces whatever is there (null: reset).
  void replace(FenceRef fence);
  // Appends a point; a binary fence that is there comes before the first point.
  void add_point(const FenceRef& fence, std::uint64_t point);
  // Point 0 stands for the whole: replaces it; any other is appended.
  void set_point(const FenceRef& fence, std::uint64_t point);
  // The fence that a wait for `point` waits for; null when nothing is submitted for it yet.
  FenceRef fence_at(std::uint64_t point) const;
  // QUERY: the last signalled point, or with `last_submitted` the last one added. 0 without a timeline.
  std::uint64_t query(bool last_submitted) const;

  // Runs (once, without locks) when fence_at(point) has become non-null; at once when it is.
  std::uint64_t on_submitted(std::uint64_t point, std::function<void()> callback);
  void forget(std::uint64_t id);

 private:
  FenceRef fence_at_locked(std::uint64_t point) const;
  std::vector<std::function<void()>> take_ready_locked();
  mutable std::mutex mutex_;
  FenceRef binary_;                     // guarded by mutex_; null when there is a timeline
  std::shared_ptr<Timeline> timeline_;  // guarded by mutex_
  std::uint64_t next_waiter_ = 1;       // guarded by mutex_
  std::map<std::uint64_t, std::pair<std::uint64_t, std::function<void()>>>
      waiters_;  // id -> (point, callback); guarded by mutex_
};

using SyncobjRef = std::shared_ptr<Syncobj>;

class Syncobjs {
 public:
  explicit Syncobjs(std::string owner_label) : owner_label_(std::move(owner_label)) {}

  // Handles are the lowest free number from 1.
  Result<std::uint32_t> create_handle(const Call* call, const SyncobjRef& syncobj);
  SyncobjRef find(std::uint32_t handle) const;                   // null when unknown
  Result<void> destroy(const Call& call, std::uint32_t handle);  // EINVAL
  void destroy_all();

 private:
  struct Slot {
    SyncobjRef syncobj;
    LedgerEntry entry;
  };
  const std::string owner_label_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Slot> slots_;
};

}  // namespace understudy::drm
