// Clock: the machine's time and its timers (wait timeouts, watchdogs).
//
// Owner: Machine. Units: nanoseconds. Errors: none. Thread-safety: all methods from any thread; a timer's
// function runs on the clock thread (or inside ManualClock::advance), without locks, and must not block.
// Mirrors: ktime_get(), ktime_get_raw() and schedule_timeout().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace understudy {

class Clock {
 public:
  using TimerId = std::uint64_t;
  virtual ~Clock() = default;
  // CLOCK_MONOTONIC, the base of every timeout.
  virtual std::uint64_t now_ns() const = 0;
  virtual TimerId at(std::uint64_t deadline_ns, std::function<void()> function) = 0;
  // False when the timer already ran or is running.
  virtual bool cancel(TimerId timer) = 0;
  // No timer runs after this returns; those that have not run are dropped.
  virtual void stop() = 0;

  TimerId after(std::uint64_t delay_ns, std::function<void()> function);
};

class SystemClock : public Clock {
 public:
  SystemClock();
  ~SystemClock() override;
  std::uint64_t now_ns() const override;
  TimerId at(std::uint64_t deadline_ns, std::function<void()> function) override;
  bool cancel(TimerId timer) override;
  void stop() override;

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::uint64_t, std::pair<TimerId, std::function<void()>>> timers_;
  std::map<TimerId, std::multimap<std::uint64_t, std::pair<TimerId, std::function<void()>>>::iterator> by_id_;
  TimerId next_id_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

// Time that moves only when told: for tests.
class ManualClock : public Clock {
 public:
  std::uint64_t now_ns() const override;
  TimerId at(std::uint64_t deadline_ns, std::function<void()> function) override;
  bool cancel(TimerId timer) override;
  void stop() override;
  // Moves time and runs what became due, in order of deadline.
  void advance(std::uint64_t delta_ns);

 private:
  mutable std::mutex mutex_;
  std::uint64_t now_ns_ = 1'000'000'000;
  std::multimap<std::uint64_t, std::pair<TimerId, std::function<void()>>> timers_;
  TimerId next_id_ = 1;
};

}  // namespace understudy
