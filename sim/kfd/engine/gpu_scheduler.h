// GpuScheduler: the thread that gives the queues of one GPU their turns.
//
// Owner: KfdDriver, one per GPU. Units: none. Errors: none. Thread-safety: all methods from any thread but
// the scheduler's own. Without queues the thread does not exist. Mirrors: the hardware scheduler (HWS) of the
// CP.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/kfd/engine/doorbell_watcher.h"
#include "sim/kfd/engine/hardware_queue.h"

namespace understudy::kfd::engine {

class GpuScheduler {
 public:
  explicit GpuScheduler(std::unique_ptr<DoorbellWatcher> watcher = std::make_unique<PollingWatcher>());
  ~GpuScheduler();
  GpuScheduler(const GpuScheduler&) = delete;

  void add(std::shared_ptr<HardwareQueue> queue);
  // When it returns, no turn of the queue is running and none will.
  void remove(const std::shared_ptr<HardwareQueue>& queue);
  // Stops all queues of a process (KfdProcess::key()): its address space faulted. From any thread.
  void evict(std::uint64_t process_key);
  // A queue was changed: look at it now.
  void kick() { watcher_->wake(); }

 private:
  using Queues = std::vector<std::shared_ptr<HardwareQueue>>;
  void run();
  std::shared_ptr<const Queues> snapshot() const;

  const std::unique_ptr<DoorbellWatcher> watcher_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Queues> queues_ =
      std::make_shared<Queues>();  // guarded by mutex_, replaced as a whole
  bool stopping_ = false;          // guarded by mutex_
  std::thread thread_;             // started with the first queue
};

}  // namespace understudy::kfd::engine
