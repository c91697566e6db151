#include "sim/drm/fence.h"

#include <time.h>

#include <unordered_map>
#include <unordered_set>

namespace understudy::drm {
namespace {

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// The fences that a merged one has to wait for.
class Parts {
 public:
  // A fence that is not merged itself; left out when it has signalled or a later one of its context is here.
  void add(const FenceRef& fence) {
    if (fence->is_signalled() || !seen_.insert(fence.get()).second) return;
    if (fence->context() == 0) {
      fences_.push_back(fence);
      return;
    }
    const auto [place, is_new] = index_of_context_.emplace(fence->context(), fences_.size());
    if (is_new) {
      fences_.push_back(fence);
    } else if (fence->sequence() > fences_[place->second]->sequence()) {
      fences_[place->second] = fence;
    }
  }
  std::vector<FenceRef> take() { return std::move(fences_); }

 private:
  std::vector<FenceRef> fences_;
  std::unordered_set<const Fence*> seen_;
  std::unordered_map<std::uint64_t, std::size_t> index_of_context_;
};

}  // namespace

std::uint64_t Fence::allocate_contexts(std::uint64_t count) {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(count, std::memory_order_relaxed);
}

FenceRef Fence::signalled() {
  auto fence = std::make_shared<Fence>("stub", "stub");
  fence->signal();
  return fence;
}

FenceRef Fence::merge(const std::vector<FenceRef>& fences) {
  Parts collected;
  for (const FenceRef& fence : fences) {
    if (fence->parts().empty()) collected.add(fence);
    for (const FenceRef& part : fence->parts()) collected.add(part);
  }
  const std::vector<FenceRef> parts = collected.take();
  if (parts.empty()) return signalled();
  if (parts.size() == 1) return parts.front();

  struct Progress {
    std::atomic<std::size_t> left;
    std::atomic<int> first_error{0};
  };
  auto progress = std::make_shared<Progress>();
  progress->left = parts.size();
  auto merged = std::make_shared<Fence>("dma_fence_array", "unbound");
  merged->parts_ = parts;
  for (const FenceRef& fence : parts) {
    fence->on_signal([merged, progress, part = fence.get()] {
      int none = 0;
      if (part->error() != 0) progress->first_error.compare_exchange_strong(none, part->error());
      if (progress->left.fetch_sub(1) == 1) merged->signal(progress->first_error.load());
    });
  }
  return merged;
}

void Fence::signal(int error) {
  std::map<CallbackId, std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (signalled_.load(std::memory_order_relaxed)) return;
    error_.store(error, std::memory_order_release);
    signalled_at_ns_.store(monotonic_ns());
    signalled_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  for (const auto& [id, callback] : callbacks) callback();
}

Fence::CallbackId Fence::on_signal(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!signalled_.load(std::memory_order_relaxed)) {
      callbacks_.emplace(next_id_, std::move(callback));
      return next_id_++;
    }
  }
  callback();
  return 0;
}

void Fence::forget(CallbackId id) {
  std::function<void()> forgotten;
  const std::lock_guard lock(mutex_);
  if (const auto found = callbacks_.find(id); found != callbacks_.end()) {
    forgotten = std::move(found->second);
    callbacks_.erase(found);
  }
}

}  // namespace understudy::drm
