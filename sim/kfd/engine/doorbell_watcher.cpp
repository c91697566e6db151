#include "sim/kfd/engine/doorbell_watcher.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>

namespace understudy::kfd::engine {
namespace {

constexpr std::uint64_t kMicrosecond = 1000, kMillisecond = 1000 * kMicrosecond;

// How long to pause after this long without progress. The last pauses keep a core under one percent busy.
struct Pause {
  std::uint64_t quiet_below_ns;
  std::uint64_t pause_ns;
};
constexpr Pause kPauses[] = {
    {50 * kMicrosecond, 0},
    {2 * kMillisecond, 20 * kMicrosecond},
    {50 * kMillisecond, 200 * kMicrosecond},
    {~std::uint64_t{0}, 2 * kMillisecond},
};
// A condition in memory is looked at more often than a doorbell: somebody is known to be waiting.
constexpr std::uint64_t kLongestWaitingPause = kMillisecond;

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t pause_after(std::uint64_t quiet_ns) {
  for (const Pause& step : kPauses) {
    if (quiet_ns < step.quiet_below_ns) return step.pause_ns;
  }
  return 0;
}

}  // namespace

void PollingWatcher::wait(Activity last) {
  if (last == Activity::kBusy) {
    quiet_since_ns_ = 0;
    return;
  }
  const std::uint64_t now = now_ns();
  if (quiet_since_ns_ == 0) quiet_since_ns_ = now;
  std::uint64_t pause_ns = pause_after(now - quiet_since_ns_);
  if (last == Activity::kWaiting) pause_ns = std::min(pause_ns, kLongestWaitingPause);
  if (pause_ns == 0) {
    ::sched_yield();
    return;
  }
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, std::chrono::nanoseconds(pause_ns), [this] { return wake_; });
  if (wake_) quiet_since_ns_ = 0;
  wake_ = false;
}

void PollingWatcher::wake() {
  const std::lock_guard lock(mutex_);
  wake_ = true;
  woken_.notify_one();
}

}  // namespace understudy::kfd::engine
