#include "sim/core/clock.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <chrono>

namespace understudy {

Clock::TimerId Clock::after(std::uint64_t delay_ns, std::function<void()> function) {
  const std::uint64_t now = now_ns();
  const std::uint64_t deadline = now + delay_ns < now ? UINT64_MAX : now + delay_ns;
  return at(deadline, std::move(function));
}

SystemClock::SystemClock() : thread_([this] { run(); }) {}

SystemClock::~SystemClock() {
  stop();
}

void SystemClock::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  by_id_.clear();
  timers_.clear();
}

std::uint64_t SystemClock::now_ns() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

Clock::TimerId SystemClock::at(std::uint64_t deadline_ns, std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  const TimerId id = next_id_++;
  const auto place = timers_.emplace(deadline_ns, std::pair(id, std::move(function)));
  by_id_[id] = place;
  if (place == timers_.begin()) changed_.notify_all();
  return id;
}

bool SystemClock::cancel(TimerId timer) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(timer);
  if (found == by_id_.end()) return false;
  timers_.erase(found->second);
  by_id_.erase(found);
  return true;
}

void SystemClock::run() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = timers_.begin();
    if (first->first > now_ns()) {
      const std::uint64_t wait_ns = std::min<std::uint64_t>(first->first - now_ns(), 3'600'000'000'000);
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    const std::function<void()> function = std::move(first->second.second);
    by_id_.erase(first->second.first);
    timers_.erase(first);
    lock.unlock();
    function();
    lock.lock();
  }
}

std::uint64_t ManualClock::now_ns() const {
  const std::lock_guard lock(mutex_);
  return now_ns_;
}

Clock::TimerId ManualClock::at(std::uint64_t deadline_ns, std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  const TimerId id = next_id_++;
  timers_.emplace(deadline_ns, std::pair(id, std::move(function)));
  return id;
}

bool ManualClock::cancel(TimerId timer) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(timers_, [timer](const auto& entry) { return entry.second.first == timer; }) != 0;
}

void ManualClock::stop() {
  const std::lock_guard lock(mutex_);
  timers_.clear();
}

void ManualClock::advance(std::uint64_t delta_ns) {
  std::unique_lock lock(mutex_);
  const std::uint64_t until = now_ns_ + delta_ns;
  while (!timers_.empty() && timers_.begin()->first <= until) {
    const auto first = timers_.begin();
    now_ns_ = std::max(now_ns_, first->first);
    const std::function<void()> function = std::move(first->second.second);
    timers_.erase(first);
    lock.unlock();
    function();
    lock.lock();
  }
  now_ns_ = until;
}

}  // namespace understudy
