// Timeline: fences at growing points; a point is done when its own fence and those of all earlier points have
// signalled.
//
// Owner: a Syncobj, and the fences of points that are not done. Units: points. Errors: none.
// Thread-safety: locks itself. Mirrors: dma-buf/dma-fence-chain.c.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "sim/drm/fence.h"

namespace understudy::drm {

class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  // A point that does not grow the timeline joins its end (dma_fence_chain_init).
  void add(std::uint64_t point, const FenceRef& fence);
  // What a wait for `point` waits for (0: the last point); null beyond the end
  // (dma_fence_chain_find_seqno).
  FenceRef fence_at(std::uint64_t point) const;
  std::uint64_t last_added() const;
  std::uint64_t last_done() const;

 private:
  struct Entry {
    std::uint64_t point = 0;
    FenceRef own;
    FenceRef done;
  };
  void advance();

  mutable std::mutex mutex_;
  std::deque<Entry> pending_;     // guarded by mutex_; points ascend
  std::uint64_t last_added_ = 0;  // guarded by mutex_
  std::uint64_t last_done_ = 0;   // guarded by mutex_
};

}  // namespace understudy::drm
