#include "sim/door/fuse/session_threads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>

namespace understudy::door {
namespace {

// Interrupts the read(2) of a thread that is to end: nothing else does while somebody holds the mount open.
constexpr int kWakeSignal = SIGUSR2;
constexpr std::chrono::milliseconds kWakeInterval{1};

void install_wake_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(kWakeSignal, &action, nullptr);
  });
}

}  // namespace

SessionThreads::SessionThreads(fuse_session* session, unsigned count) : session_(session), running_(count) {
  install_wake_handler();
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

SessionThreads::~SessionThreads() {
  ::fuse_session_exit(session_);
  while (running_ != 0) {
    for (std::thread& thread : threads_) ::pthread_kill(thread.native_handle(), kWakeSignal);
    std::this_thread::sleep_for(kWakeInterval);
  }
  for (std::thread& thread : threads_) thread.join();
}

void SessionThreads::run() {
  sigset_t blocked;
  sigfillset(&blocked);
  sigdelset(&blocked, kWakeSignal);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  fuse_buf buffer{};
  while (!::fuse_session_exited(session_)) {
    const int received = ::fuse_session_receive_buf(session_, &buffer);
    if (received == -EINTR || received == -EAGAIN) continue;
    if (received <= 0) break;
    ::fuse_session_process_buf(session_, &buffer);
  }
  std::free(buffer.mem);
  --running_;
}

}  // namespace understudy::door
