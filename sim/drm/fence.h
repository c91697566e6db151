// Fence: something that will have happened: signalled once, with or without an error.
//
// Owner: shared by who signals it and who waits. Whoever makes a fence signals it in the end, also when the
// work is given up: what waits is kept alive by the fence. Units: ns of CLOCK_MONOTONIC. Errors: a positive
// errno, 0 for success. Thread-safety: all methods from any thread; callbacks run on the signalling thread,
// without locks. Mirrors: dma-buf/dma-fence.c; merge() is dma-fence-unwrap.c: __dma_fence_unwrap_merge with
// dma-fence-array.c.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace understudy::drm {

class Fence;
using FenceRef = std::shared_ptr<Fence>;

class Fence {
 public:
  using CallbackId = std::uint64_t;

  // `timeline` and `driver` are what SYNC_IOC_FILE_INFO shows; `context` groups fences that signal in the
  // order of their sequence numbers (0: alone).
  explicit Fence(std::string driver = "understudy", std::string timeline = "unbound",
                 std::uint64_t context = 0, std::uint64_t sequence = 0)
      : driver_(std::move(driver)), timeline_(std::move(timeline)), context_(context), sequence_(sequence) {}

  // dma_fence_context_alloc(): the first of `count` context numbers that nobody else has.
  static std::uint64_t allocate_contexts(std::uint64_t count);

  // dma_fence_get_stub().
  static FenceRef signalled();
  // Signals when all have; the first error wins. Fences that have signalled are left out, and of each context
  // all but the last; a single remaining one is returned as it is.
  static FenceRef merge(const std::vector<FenceRef>& fences);

  bool is_signalled() const { return signalled_.load(std::memory_order_acquire); }
  int error() const { return error_.load(std::memory_order_acquire); }
  std::uint64_t signalled_at_ns() const { return signalled_at_ns_.load(); }
  // dma_fence_driver_name() and dma_fence_timeline_name(): a signalled fence belongs to nobody any more.
  std::string driver_name() const { return is_signalled() ? "detached-driver" : driver_; }
  std::string timeline_name() const { return is_signalled() ? "signaled-timeline" : timeline_; }
  std::uint64_t context() const { return context_; }
  std::uint64_t sequence() const { return sequence_; }
  // The fences this one was merged from, none of them merged itself; empty for an ordinary fence.
  const std::vector<FenceRef>& parts() const { return parts_; }

  void signal(int error = 0);
  // Runs once when signalled, at once when it already is (then the id is 0).
  CallbackId on_signal(std::function<void()> callback);
  void forget(CallbackId id);

 private:
  const std::string driver_;
  const std::string timeline_;
  const std::uint64_t context_;
  const std::uint64_t sequence_;
  std::vector<FenceRef> parts_;
  std::atomic<bool> signalled_{false};
  std::atomic<int> error_{0};
  std::atomic<std::uint64_t> signalled_at_ns_{0};
  std::mutex mutex_;
  CallbackId next_id_ = 1;                                 // guarded by mutex_
  std::map<CallbackId, std::function<void()>> callbacks_;  // guarded by mutex_
};

}  // namespace understudy::drm
