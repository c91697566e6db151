// What a client does that a device driver never notices, and a library in its place easily would: fork, exec,
// threads, closing everything, losing the server.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/shim/client.h"

namespace understudy::test {
namespace {

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

unsigned pid_seen_through(int fd) {
  WhoArgs args{};
  return ::ioctl(fd, TEST_IOC_WHO, &args) == 0 ? args.pid : 0;
}

TEST(Fork, ChildUsesTheInheritedFileUnderItsOwnName) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  EXPECT_TRUE(in_child([&] { return pid_seen_through(fd.get()) == static_cast<unsigned>(::getpid()); }));
  EXPECT_TRUE(echoes(fd.get()));
}

TEST(Fork, ChildHoldsNoConnectionOfItsParent) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const int before = open_descriptors();
  EXPECT_TRUE(in_child([&] { return open_descriptors() < before; }));
}

TEST(Fork, ChildAndParentCallAtTheSameTime) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const pid_t child = ::fork();
  bool fine = true;
  for (int i = 0; i < 300; ++i) fine = echoes(fd.get()) && fine;
  if (child == 0) ::_exit(fine ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fine);
}

TEST(Fork, WhileThreadsAreInCalls) {
  const UniqueFd fd = open_node();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) echoes(fd.get());
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(in_child([&] { return echoes(fd.get()) && echoes(fd.get()); }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, WithoutLibcsKnowledgeTheChildStillReachesTheMachine) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const pid_t child = static_cast<pid_t>(::syscall(SYS_fork));
  if (child == 0) ::_exit(pid_seen_through(fd.get()) == static_cast<unsigned>(::getpid()) ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(echoes(fd.get()));
}

TEST(Vfork, ChildsCallsLeaveTheParentsConnectionsAlone) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const int before = open_descriptors();
  const pid_t child = ::vfork();
  if (child == 0) {
    WhoArgs args{};
    const bool fine =
        ::ioctl(fd.get(), TEST_IOC_WHO, &args) == 0 && args.pid == static_cast<unsigned>(::getpid());
    for (int other = 3; other < 64; ++other) ::close(other);
    ::_exit(fine ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(echoes(fd.get()));
}

TEST(Exec, NewProgramUsesTheInheritedFileAsAnotherClient) {
  const UniqueFd fd = open_node(O_RDWR);
  WhoArgs args{};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_WHO, &args), 0);
  const std::string number = std::to_string(fd.get());
  EXPECT_TRUE(in_child([&] {
    ::execl("/proc/self/exe", "shim_client_tests", "--use-inherited", number.c_str(), nullptr);
    return false;
  }));
}

TEST(Exec, SpawnedShellSeesTheMachine) {
  EXPECT_EQ(::system("cat /sys/class/accel/accel0/device/vendor | grep -q 0x1022"), 0);
  EXPECT_EQ(::system("test -c /dev/accel/accel0 && ls -l /dev/accel/accel0 | grep -q '^c.*261, *0'"), 0);
  EXPECT_EQ(::system("grep -q ^amdxdna /proc/modules"), 0);
  EXPECT_EQ(::system("cd /sys/class/accel/accel0/device && test \"$(cat busy_percent)\" = 17"), 0);
}

TEST(Descriptors, DuplicatesAndPassedOnesAreTheFile) {
  const UniqueFd fd = open_node();
  const UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 200));
  EXPECT_TRUE(echoes(copy.get()));
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const UniqueFd left(ends[0]), right(ends[1]);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = fd.get();
  std::memcpy(CMSG_DATA(rights), &number, sizeof number);
  ASSERT_EQ(::sendmsg(left.get(), &message, 0), 1);
  EXPECT_TRUE(in_child([&] {
    message.msg_controllen = sizeof control;
    if (::recvmsg(right.get(), &message, 0) != 1) return false;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    return echoes(received);
  }));
}

TEST(Descriptors, ProgramThatClosesEverythingGoesOn) {
  UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  EXPECT_TRUE(in_child([&] {
    if (!echoes(fd.get())) return false;
    for (int other = 3; other < 1024; ++other) {
      if (other != fd.get()) ::close(other);
    }
    // Something of the program's takes the numbers.
    for (int i = 0; i < 8; ++i) {
      if (::open("/dev/null", O_RDWR) < 0) return false;
    }
    return echoes(fd.get()) && echoes(fd.get());
  }));
}

TEST(Descriptors, SocketOfTheProgramsUnderTheShimsNumberIsNotSpokenTo) {
  const UniqueFd fd = open_node();
  EXPECT_TRUE(in_child([&] {
    if (!echoes(fd.get())) return false;
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return false;
    for (int other = 3; other < 64; ++other) {
      if (other != fd.get() && other != ends[0] && other != ends[1]) ::dup2(ends[0], other);
    }
    char byte;
    return echoes(fd.get()) && ::recv(ends[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
  }));
}

TEST(Descriptors, StandardNumbersAreNeverTaken) {
  EXPECT_TRUE(in_child([] {
    ::close(0);
    ::close(1);
    ::close(2);
    const UniqueFd fd(::open(kNode, O_RDWR | O_CLOEXEC));
    return fd.get() == 0 && echoes(0) && ::write(1, "x", 1) == -1 && errno == EBADF;
  }));
}

TEST(Descriptors, IdleConnectionsAreFewWhateverTheNumberOfThreads) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const int before = open_descriptors();
  for (int round = 0; round < 40; ++round) {
    std::thread([&] { echoes(fd.get()); }).join();
  }
  EXPECT_LE(open_descriptors(), before + 1);
}

TEST(Process, ThatTouchesNoDeviceHasNoConnection) {
  EXPECT_EQ(::system("test \"$(ls -l /proc/self/fd | grep -c socket:)\" = 0"), 0);
}

}  // namespace
}  // namespace understudy::test
