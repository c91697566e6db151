// A client of a machine with the test nodes, with the shim preloaded: its tests, or one of the roles that
// other tests need a program for. Roles end with status 0 when all went as it should.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "tests/shim/client.h"

namespace understudy::test {
namespace {

int expect(bool condition, const char* what) {
  if (condition) return 0;
  std::fprintf(stderr, "shim_client_tests: not so: %s (errno %d: %s)\n", what, errno, std::strerror(errno));
  return 1;
}

void kill_and_wait(pid_t server) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, server, 0)));
  ::kill(server, SIGKILL);
  pollfd gone{pidfd.get(), POLLIN, 0};
  ::poll(&gone, 1, -1);
}

int use_inherited(int fd) {
  WhoArgs args{};
  return expect(::ioctl(fd, TEST_IOC_WHO, &args) == 0 && args.pid == static_cast<unsigned>(::getpid()),
                "the inherited file knows its new program");
}

int outlive_idle(pid_t server) {
  const UniqueFd fd = open_node();
  int failures = expect(echoes(fd.get()), "the server answers");
  kill_and_wait(server);
  for (int i = 0; i < 2; ++i)
    failures += expect(!echoes(fd.get()) && errno == ENODEV, "ioctl after the server's death is ENODEV");
  failures +=
      expect(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0) == MAP_FAILED && errno == ENODEV,
             "mmap is ENODEV");
  failures += expect(!open_node() && errno == ENODEV, "open is ENODEV");
  std::thread([&] {
    failures += expect(!echoes(fd.get()) && errno == ENODEV, "another thread's ioctl is ENODEV");
  }).join();
  failures += expect(::open("/dev/null", O_RDWR | O_CLOEXEC) >= 0, "the host's files are still there");
  return failures;
}

bool is_in_system_call(pid_t tid, long number) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/syscall");
  long current = -1;
  return (file >> current) && current == number;
}

int outlive_in_call(pid_t server) {
  const UniqueFd fd = open_node();
  std::atomic<pid_t> tid{0};
  int result = 0, error = 0;
  std::thread blocked([&] {
    tid = ::gettid();
    BlockArgs args{};
    result = ::ioctl(fd.get(), TEST_IOC_BLOCK, &args);
    error = errno;
  });
  while (tid == 0 || !is_in_system_call(tid, SYS_recvmsg)) ::usleep(500);
  kill_and_wait(server);
  blocked.join();
  errno = error;
  return expect(result == -1 && error == EIO, "a call in flight when the server dies is EIO");
}

int run_role(const std::string& role, int argument) {
  if (role == "--use-inherited") return use_inherited(argument);
  if (role == "--outlive-idle") return outlive_idle(argument);
  if (role == "--outlive-in-call") return outlive_in_call(argument);
  return expect(false, "the role is known");
}

}  // namespace
}  // namespace understudy::test

int main(int argc, char** argv) {
  if (argc == 3 && argv[1][2] != 'g') return understudy::test::run_role(argv[1], std::atoi(argv[2]));
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
