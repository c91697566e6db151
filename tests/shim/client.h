// What the tests that run as a client of a machine share: the machine is that of understudy-with-test-node,
// and every libc call goes through the preloaded shim.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "sim/core/fd.h"
#include "tests/door/test_node.h"

namespace understudy::test {

inline constexpr char kNode[] = "/dev/accel/accel0";

inline UniqueFd open_node(int flags = O_RDWR | O_CLOEXEC) {
  return UniqueFd(::open(kNode, flags));
}

inline bool echoes(int fd) {
  EchoArgs args{21, 0};
  return ::ioctl(fd, TEST_IOC_ECHO, &args) == 0 && args.doubled == 42;
}

// Runs `body` in a child made by fork(2); whether it returned true.
inline bool in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Waits until the node's blocking ioctl is entered by some thread, and ends it.
inline int wake_blocked(int fd) {
  int woken = 0;
  while ((woken = ::ioctl(fd, TEST_IOC_WAKE, 0)) == 0) ::usleep(500);
  return woken;
}

}  // namespace understudy::test
