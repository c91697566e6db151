// DoorbellWatcher: how a scheduler sleeps until a doorbell may have been written.
//
// Owner: GpuScheduler. Units: nanoseconds. Errors: none. Thread-safety: wait() belongs to one thread, wake()
// to any. Mirrors: nothing; hardware sees the write on the bus.
//
// PollingWatcher works everywhere: it looks again after a pause that grows with the time nothing happened. A
// watcher that is told of stores (userfaultfd write-protection of doorbell pages) fits the same interface.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace understudy::kfd::engine {

// What the last look at the queues found.
enum class Activity : std::uint8_t {
  kBusy,     // a queue made progress
  kWaiting,  // queues wait for something in memory
  kIdle,     // every queue is done
};

class DoorbellWatcher {
 public:
  virtual ~DoorbellWatcher() = default;
  // Returns when it is time to look again.
  virtual void wait(Activity last) = 0;
  // Makes wait() return: a queue was added, changed or removed.
  virtual void wake() = 0;
};

class PollingWatcher : public DoorbellWatcher {
 public:
  void wait(Activity last) override;
  void wake() override;

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false;  // guarded by mutex_
  std::uint64_t quiet_since_ns_ = 0;
};

}  // namespace understudy::kfd::engine
