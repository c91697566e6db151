// Calls as a client makes them: ioctl, mmap and lseek on the machine's files, with signals in between.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/dma-buf.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/shim/client.h"

namespace understudy::test {
namespace {

constexpr std::size_t kPage = 4096;

UniqueFd export_dma_buf(int fd, std::uint64_t size_bytes, bool close_on_exec = true) {
  ExportArgs args{size_bytes, -1, close_on_exec};
  return ::ioctl(fd, TEST_IOC_EXPORT, &args) == 0 ? UniqueFd(args.fd) : UniqueFd();
}

// Lowers the number of descriptors this process may have to those it has.
class FullTable {
 public:
  FullTable() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit full = before_;
    full.rlim_cur = static_cast<rlim_t>(UniqueFd(::open("/dev/null", O_RDONLY)).get());
    ::setrlimit(RLIMIT_NOFILE, &full);
  }
  ~FullTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Ioctl, CarriesFlatAndDeepArguments) {
  const UniqueFd fd = open_node();
  errno = 77;
  EXPECT_TRUE(echoes(fd.get()));
  EXPECT_EQ(errno, 77);
  std::array<std::uint32_t, 3> numbers{1, 2, 3};
  DeepArgs args{reinterpret_cast<std::uint64_t>(numbers.data()), 3, 0};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_DEEP, &args), 0);
  EXPECT_EQ(args.sum, 6u);
  EXPECT_EQ(numbers[2], 4u);
}

TEST(Ioctl, BadAddressesAreEfaultAndNoSignal) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, 8), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, nullptr), -1);
  EXPECT_EQ(errno, EFAULT);
  void* const read_only = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, read_only), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_EXPORT, read_only), -1);
  EXPECT_EQ(errno, EFAULT);
  ::munmap(read_only, kPage);
}

TEST(Ioctl, FailureIsMinusOneWithTheDriversErrno) {
  const UniqueFd fd = open_node();
  FailArgs args{ENOSPC, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_FAIL, &args), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(::ioctl(fd.get(), _IO('T', 99), 0), -1);
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_EQ(::ioctl(-1, TEST_IOC_ECHO, &args), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(Ioctl, UpperHalfOfTheCommandIsIgnoredAsByTheKernel) {
  const UniqueFd fd = open_node();
  EchoArgs args{4, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO | 0xdead'0000'0000'0000, &args), 0);
  EXPECT_EQ(args.doubled, 8u);
}

TEST(Ioctl, DescriptorFlagsAreTheKernelsBusiness) {
  const UniqueFd fd = open_node(O_RDWR);
  EXPECT_EQ(::ioctl(fd.get(), FIOCLEX), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::ioctl(fd.get(), FIONCLEX), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD), 0);
}

TEST(Ioctl, OtherFilesGetTheirOwnDriversAnswer) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], "abc", 3), 3);
  int available = 0;
  EXPECT_EQ(::ioctl(ends[0], FIONREAD, &available), 0);
  EXPECT_EQ(available, 3);
  EXPECT_EQ(::ioctl(ends[0], TEST_IOC_ECHO, &available), -1);
  EXPECT_EQ(errno, ENOTTY);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Ioctl, CallerIsTheThreadThatCalls) {
  const UniqueFd fd = open_node();
  WhoArgs here{}, there{};
  ASSERT_EQ(::ioctl(fd.get(), TEST_IOC_WHO, &here), 0);
  pid_t other_tid = 0;
  std::thread([&] {
    other_tid = ::gettid();
    ::ioctl(fd.get(), TEST_IOC_WHO, &there);
  }).join();
  EXPECT_EQ(here.pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(here.tid, static_cast<unsigned>(::gettid()));
  EXPECT_EQ(there.tid, static_cast<unsigned>(other_tid));
  EXPECT_EQ(there.client_id, here.client_id);
}

TEST(Ioctl, ManyThreadsOnOneFile) {
  const UniqueFd fd = open_node();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        EchoArgs args{t * 1000 + i, 0};
        if (::ioctl(fd.get(), TEST_IOC_ECHO, &args) != 0 || args.doubled != 2 * args.value) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Ioctl, FileOpenedAgainThroughProcIsTheOtherFile) {
  const UniqueFd fd = open_node();
  const UniqueFd other(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(other);
  EXPECT_TRUE(echoes(fd.get()));
  EXPECT_TRUE(echoes(other.get()));
}

TEST(HandedDescriptor, IsWrittenIntoTheStructWithItsFlag) {
  const UniqueFd fd = open_node();
  const UniqueFd closing = export_dma_buf(fd.get(), kPage, true);
  const UniqueFd staying = export_dma_buf(fd.get(), kPage, false);
  ASSERT_TRUE(closing);
  ASSERT_TRUE(staying);
  EXPECT_EQ(::fcntl(closing.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(staying.get(), F_GETFD), 0);
}

TEST(HandedDescriptor, FullTableIsEmfileAndOtherCallsStillWork) {
  if (std::getenv("UNDERSTUDY_TEST_DENY_MEMORY") != nullptr) GTEST_SKIP() << "memory moves through a pipe";
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const FullTable full;
  ExportArgs args{kPage, -1, 1};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_EXPORT, &args), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_TRUE(echoes(fd.get()));
}

TEST(DmaBuf, SeekTellsTheSizeAndNothingElse) {
  const UniqueFd fd = open_node();
  const UniqueFd buffer = export_dma_buf(fd.get(), 3 * kPage);
  EXPECT_EQ(::lseek(buffer.get(), 0, SEEK_END), static_cast<off_t>(3 * kPage));
  EXPECT_EQ(::lseek(buffer.get(), 0, SEEK_SET), 0);
  for (const auto& [offset, whence] : {std::pair(1, SEEK_SET), {0, SEEK_CUR}, {-1, SEEK_END}}) {
    EXPECT_EQ(::lseek(buffer.get(), offset, whence), -1);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST(DmaBuf, SyncChecksItsFlagsAsTheKernelDoes) {
  const UniqueFd fd = open_node();
  const UniqueFd buffer = export_dma_buf(fd.get(), kPage);
  const auto sync = [&](std::uint64_t flags) {
    dma_buf_sync args{flags};
    return ::ioctl(buffer.get(), DMA_BUF_IOCTL_SYNC, &args);
  };
  EXPECT_EQ(sync(DMA_BUF_SYNC_READ | DMA_BUF_SYNC_START), 0);
  EXPECT_EQ(sync(DMA_BUF_SYNC_RW | DMA_BUF_SYNC_END), 0);
  EXPECT_EQ(sync(DMA_BUF_SYNC_START), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(sync(DMA_BUF_SYNC_READ | 8), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::ioctl(buffer.get(), DMA_BUF_IOCTL_SYNC, 8), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::ioctl(buffer.get(), _IO('b', 77), 0), -1);
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_EQ(::ioctl(buffer.get(), DMA_BUF_SET_NAME_B, "weights"), 0);
}

TEST(DmaBuf, MapsWithinItsSizeOnly) {
  const UniqueFd fd = open_node();
  const UniqueFd buffer = export_dma_buf(fd.get(), 2 * kPage);
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.get(), kPage);
  ASSERT_NE(mapped, MAP_FAILED);
  ::munmap(mapped, kPage);
  EXPECT_EQ(::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, buffer.get(), kPage), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST(DmaBuf, IsNamedAsOne) {
  const UniqueFd fd = open_node();
  const UniqueFd buffer = export_dma_buf(fd.get(), kPage);
  char name[64] = {};
  ::readlink(("/proc/self/fd/" + std::to_string(buffer.get())).c_str(), name, sizeof name);
  EXPECT_STREQ(name, "/dmabuf:");
}

TEST(DmaBuf, AProgramsOwnMemoryFilesStayWhatTheyAre) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  const UniqueFd memory(::memfd_create("mine", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), kPage), 0);
  EXPECT_EQ(::lseek(memory.get(), 5, SEEK_SET), 5);
  EXPECT_EQ(::lseek(memory.get(), 0, SEEK_CUR), 5);
  dma_buf_sync args{DMA_BUF_SYNC_READ};
  EXPECT_EQ(::ioctl(memory.get(), DMA_BUF_IOCTL_SYNC, &args), -1);
  EXPECT_EQ(errno, ENOTTY);
}

TEST(Mmap, MapsTheBuffersPages) {
  const UniqueFd fd = open_node();
  auto* const one =
      static_cast<char*>(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  auto* const two = static_cast<char*>(::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd.get(), 0));
  ASSERT_NE(one, MAP_FAILED);
  ASSERT_NE(two, MAP_FAILED);
  one[100] = 'x';
  EXPECT_EQ(two[100], 'x');
  ::munmap(one, kPage);
  ::munmap(two, kPage);
}

TEST(Mmap, FixedReplacesWhatIsThereAndLeavesNoDescriptor) {
  const UniqueFd fd = open_node();
  void* const reserved = ::mmap(nullptr, 4 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int lowest = UniqueFd(::open("/dev/null", O_RDONLY)).get();
  void* const wanted = static_cast<char*>(reserved) + kPage;
  EXPECT_EQ(::mmap(wanted, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), 0), wanted);
  EXPECT_EQ(UniqueFd(::open("/dev/null", O_RDONLY)).get(), lowest);
  EXPECT_EQ(::mmap(wanted, kPage, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EEXIST);
  ::munmap(reserved, 4 * kPage);
}

TEST(Mmap, FailuresAreTheDriversOrTheKernels) {
  const UniqueFd fd = open_node();
  EXPECT_EQ(::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::mmap(nullptr, 0, PROT_READ, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd.get(), 12), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ, 0, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Seek, NodesOfDrmStayAtZero) {
  const UniqueFd fd = open_node();
  ASSERT_TRUE(echoes(fd.get()));
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_END), 0);
  EXPECT_EQ(::lseek(fd.get(), 5, SEEK_SET), 0);
  EXPECT_EQ(::lseek(fd.get(), 0, 17), -1);
  EXPECT_EQ(errno, EINVAL);
}

void ignore_signal(int) {}
int handler_fd = -1;
std::atomic<int> handler_calls{0};
void call_in_handler(int) {
  if (echoes(handler_fd)) ++handler_calls;
}

void set_handler(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(SIGUSR1, &action, nullptr);
}

// A thread in the blocking ioctl, and its signal.
class Blocked {
 public:
  explicit Blocked(int fd)
      : thread_([this, fd] {
          tid_ = ::pthread_self();
          started_ = true;
          BlockArgs args{};
          result = ::ioctl(fd, TEST_IOC_BLOCK, &args);
          error = errno;
          woken = args.woken;
          ended_ = true;
        }) {
    while (!started_) ::usleep(100);
  }
  // Until `seen` or the end of the call: the first may come before the thread is inside.
  void signal_until(const std::function<bool()>& seen) {
    while (!ended_ && !seen()) {
      ::pthread_kill(tid_, SIGUSR1);
      ::usleep(1000);
    }
  }
  void join() { thread_.join(); }
  bool ended() const { return ended_; }
  int result = 0, error = 0;
  unsigned woken = 0;

 private:
  std::atomic<bool> started_{false}, ended_{false};
  pthread_t tid_{};
  std::thread thread_;
};

TEST(Signal, InterruptsABlockedCall) {
  const UniqueFd fd = open_node();
  set_handler(&ignore_signal, 0);
  Blocked blocked(fd.get());
  blocked.signal_until([] { return false; });
  blocked.join();
  EXPECT_EQ(blocked.result, -1);
  EXPECT_EQ(blocked.error, EINTR);
  EXPECT_TRUE(echoes(fd.get()));
}

TEST(Signal, WithRestartTheCallGoesOn) {
  const UniqueFd fd = open_node();
  handler_fd = fd.get();
  handler_calls = 0;
  set_handler(&call_in_handler, SA_RESTART);
  Blocked blocked(fd.get());
  blocked.signal_until([] { return handler_calls > 3; });
  EXPECT_FALSE(blocked.ended());
  wake_blocked(fd.get());
  blocked.join();
  EXPECT_EQ(blocked.result, 0);
  EXPECT_EQ(blocked.woken, 1u);
}

TEST(Signal, HandlerMayCallTheDeviceWhileACallWaits) {
  const UniqueFd fd = open_node();
  handler_fd = fd.get();
  handler_calls = 0;
  set_handler(&call_in_handler, 0);
  Blocked blocked(fd.get());
  blocked.signal_until([] { return false; });
  blocked.join();
  EXPECT_EQ(blocked.error, EINTR);
  EXPECT_GT(handler_calls, 0);
}

}  // namespace
}  // namespace understudy::test
