// Reservation: the fences of a buffer object: who still reads or writes it.
//
// Owner: GemObject (imports share the exporter's in the kernel; here each object keeps its own). Units: none.
// Errors: none. Thread-safety: locks itself. Mirrors: dma-buf/dma-resv.c.
#pragma once

#include <mutex>
#include <vector>

#include "sim/drm/fence.h"

namespace understudy::drm {

class Reservation {
 public:
  void add(const FenceRef& fence) {
    const std::lock_guard lock(mutex_);
    std::erase_if(fences_, [](const FenceRef& old) { return old->is_signalled(); });
    fences_.push_back(fence);
  }
  std::vector<FenceRef> pending() const {
    const std::lock_guard lock(mutex_);
    std::vector<FenceRef> pending;
    for (const FenceRef& fence : fences_) {
      if (!fence->is_signalled()) pending.push_back(fence);
    }
    return pending;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<FenceRef> fences_;
};

}  // namespace understudy::drm
