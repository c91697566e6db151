#include "sim/drm/fence.h"

#include <time.h>

namespace understudy::drm {
namespace {

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

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

FenceRef Fence::merge(std::vector<FenceRef> fences) {
  if (fences.size() == 1) return fences.front();
  auto merged = std::make_shared<Fence>();
  merged->parts_ = fences;
  auto left = std::make_shared<std::atomic<std::size_t>>(fences.size());
  auto first_error = std::make_shared<std::atomic<int>>(0);
  if (fences.empty()) merged->signal();
  for (const FenceRef& fence : fences) {
    fence->on_signal([merged, left, first_error, part = std::weak_ptr(fence)] {
      const FenceRef signalled = part.lock();
      int none = 0;
      if (signalled && signalled->error() != 0)
        first_error->compare_exchange_strong(none, signalled->error());
      if (left->fetch_sub(1) == 1) merged->signal(first_error->load());
    });
  }
  return merged;
}

FenceRef Fence::any(const std::vector<FenceRef>& fences) {
  auto first = std::make_shared<Fence>();
  for (const FenceRef& fence : fences) fence->on_signal([first] { first->signal(); });
  return first;
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
  const std::lock_guard lock(mutex_);
  callbacks_.erase(id);
}

}  // namespace understudy::drm
