// Interrupts: what to do when the kernel says that the sender of a request got a signal.
//
// Owner: one per fuse session. libfuse calls back with locks held and possibly while another thread answers
// and frees the request, so requests are named by number and the work is done on a reactor thread.
// Thread-safety: all methods from any thread. Errors, units: none. Mirrors: fs/fuse/dev.c: queue_interrupt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "sim/core/machine.h"
#include "sim/door/fuse/fuse_api.h"

namespace understudy::door {

class Interrupts {
 public:
  using Key = std::uint64_t;

  // `interrupted` runs at most once, and the key stays watched until forget(). To be called before anything
  // can answer `request`.
  Key watch(fuse_req_t request, std::function<void()> interrupted);
  void forget(Key key);
  // The session ends: interrupts all that is pending and waits until it is answered. False: some still is
  // not.
  bool interrupt_all(std::chrono::milliseconds patience);

 private:
  static void on_interrupt(fuse_req_t request, void* data);
  void run(Key key);

  std::mutex mutex_;
  std::condition_variable forgotten_;
  Key next_ = 1;
  std::map<Key, std::function<void()>> watched_;  // guarded by mutex_
};

// What every session of ours carries as its libfuse user data.
struct SessionData {
  explicit SessionData(Machine& its_machine) : machine(its_machine) {}
  Machine& machine;
  Interrupts interrupts;
};

}  // namespace understudy::door
