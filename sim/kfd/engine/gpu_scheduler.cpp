#include "sim/kfd/engine/gpu_scheduler.h"

#include <sys/prctl.h>

#include <algorithm>

namespace understudy::kfd::engine {

GpuScheduler::GpuScheduler(std::unique_ptr<DoorbellWatcher> watcher) : watcher_(std::move(watcher)) {}

GpuScheduler::~GpuScheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  watcher_->wake();
  if (thread_.joinable()) thread_.join();
}

void GpuScheduler::add(std::shared_ptr<HardwareQueue> queue) {
  {
    const std::lock_guard lock(mutex_);
    auto queues = std::make_shared<Queues>(*queues_);
    queues->push_back(std::move(queue));
    queues_ = std::move(queues);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
  }
  watcher_->wake();
}

void GpuScheduler::remove(const std::shared_ptr<HardwareQueue>& queue) {
  {
    const std::lock_guard lock(mutex_);
    auto queues = std::make_shared<Queues>(*queues_);
    std::erase(*queues, queue);
    queues_ = std::move(queues);
  }
  queue->retire();
}

void GpuScheduler::evict(std::uint64_t process_key) {
  for (const auto& queue : *snapshot()) {
    if (queue->process_key() == process_key) queue->stop();
  }
}

std::shared_ptr<const GpuScheduler::Queues> GpuScheduler::snapshot() const {
  const std::lock_guard lock(mutex_);
  return queues_;
}

void GpuScheduler::run() {
  ::prctl(PR_SET_NAME, "gpu-scheduler");
  ::prctl(PR_SET_TIMERSLACK, 1000);
  for (;;) {
    std::shared_ptr<const Queues> queues;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queues_->empty(); });
      if (stopping_) return;
      queues = queues_;
    }
    Activity activity = Activity::kIdle;
    for (const auto& queue : *queues) {
      switch (queue->turn()) {
        case HardwareQueue::Turn::kProgress:
          activity = Activity::kBusy;
          break;
        case HardwareQueue::Turn::kWaiting:
          if (activity == Activity::kIdle) activity = Activity::kWaiting;
          break;
        case HardwareQueue::Turn::kIdle:
          break;
      }
    }
    queues.reset();
    watcher_->wait(activity);
  }
}

}  // namespace understudy::kfd::engine
