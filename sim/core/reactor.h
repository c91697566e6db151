// Reactor: the server's event threads; runs a function when a descriptor becomes ready.
//
// Owner: Machine. Errors: watch returns epoll's errno. Units: epoll event bits.
// Thread-safety: all methods from any thread. A watch's function never runs on two threads at once; after
// unwatch() returns it will not start again (it may still be running when called from itself).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/core/fd.h"

namespace understudy {

class Reactor {
 public:
  using Function = std::function<void(std::uint32_t events)>;
  using WatchId = std::uint64_t;

  explicit Reactor(unsigned thread_count = 2);
  ~Reactor();

  // `fd` is borrowed and must outlive the watch. `events` as for epoll (EPOLLIN, ...; one-shot is re-armed
  // for you).
  Result<WatchId> watch(int fd, std::uint32_t events, Function function);
  void unwatch(WatchId id);
  // Runs `work` soon on a reactor thread.
  void post(std::function<void()> work);
  void stop();

 private:
  struct Watch;
  void run();

  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::map<WatchId, std::shared_ptr<Watch>> watches_;
  std::deque<std::function<void()>> posted_;
  WatchId next_id_ = 1;
  std::vector<std::thread> threads_;
};

}  // namespace understudy
