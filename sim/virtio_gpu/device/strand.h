// Strand: runs tasks one after the other on whichever thread brings the first: the device's main loop without
// a thread of its own.
//
// Owner: the device. Units: none. Errors: none. Thread-safety: post() from any thread, also from inside a
// task (then it runs later). A task never runs at the same time as another. Mirrors: QEMU's bottom halves.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace understudy::virtio_gpu {

class Strand {
 public:
  // Returns after `task` has run, unless another thread is at work: then that thread runs it.
  void post(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    if (running_) return;
    running_ = true;
    while (!tasks_.empty()) {
      std::function<void()> next = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      next();
      next = nullptr;  // what it holds may post, too
      lock.lock();
    }
    running_ = false;
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool running_ = false;                     // guarded by mutex_
};

}  // namespace understudy::virtio_gpu
