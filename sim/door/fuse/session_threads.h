// SessionThreads: the threads that take requests of one fuse or cuse session from the kernel.
//
// Owner: the door, declared after the session it borrows. Units: none. Errors: a session whose device fails
// (unmounted behind our back) ends its threads. Thread-safety: construct and destroy on one thread.
// Mirrors: lib/fuse_loop_mt.c, with a fixed number of threads and an orderly end.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "sim/door/fuse/fuse_api.h"

namespace understudy::door {

class SessionThreads {
 public:
  SessionThreads(fuse_session* session, unsigned count);
  ~SessionThreads();
  SessionThreads(const SessionThreads&) = delete;

 private:
  void run();
  fuse_session* const session_;
  std::atomic<unsigned> running_;
  std::vector<std::thread> threads_;
};

}  // namespace understudy::door
