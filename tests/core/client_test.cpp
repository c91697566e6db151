#include "sim/core/client.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <thread>

#include "sim/core/reactor.h"

namespace understudy {
namespace {

class ClientTableTest : public testing::Test {
 protected:
  ClientTableTest() {
    clients_.on_gone([this](const ClientRef& client) {
      const std::lock_guard lock(mutex_);
      gone_.push_back(client->id());
      changed_.notify_all();
    });
  }
  void wait_gone(std::uint64_t id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::find(gone_.begin(), gone_.end(), id) != gone_.end(); });
  }
  // A child that waits for a byte, then runs `then`.
  template <typename Then>
  pid_t spawn(Then then) {
    EXPECT_EQ(::pipe(go_), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      char byte;
      ::close(go_[1]);
      (void)!::read(go_[0], &byte, 1);
      then();
      ::_exit(0);
    }
    ::close(go_[0]);
    return child;
  }
  void release() { ::close(go_[1]); }

  int go_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> gone_;
  Reactor reactor_;
  ClientTable clients_{reactor_};
};

TEST_F(ClientTableTest, ThreadsOfOneProcessAreOneClient) {
  const ClientRef main_client = clients_.resolve(::getpid()).value();
  ClientRef thread_client;
  std::thread([&] { thread_client = clients_.resolve(::gettid()).value(); }).join();
  EXPECT_EQ(main_client, thread_client);
  EXPECT_EQ(main_client->uid(), ::getuid());
}

TEST_F(ClientTableTest, UnknownThreadIsEsrch) {
  // Above the largest possible pid_max.
  EXPECT_EQ(clients_.resolve(0x7ffffff0).error(), Errno(ESRCH));
}

TEST_F(ClientTableTest, ObserversRunWhenTheProcessEnds) {
  const pid_t child = spawn([] {});
  const ClientRef client = clients_.resolve(child).value();
  EXPECT_FALSE(client->gone());
  release();
  wait_gone(client->id());
  EXPECT_TRUE(client->gone());
  ::waitpid(child, nullptr, 0);
}

TEST_F(ClientTableTest, KilledProcessIsGone) {
  const pid_t child = spawn([] { ::pause(); });
  const ClientRef client = clients_.resolve(child).value();
  ::kill(child, SIGKILL);
  wait_gone(client->id());
  release();
  ::waitpid(child, nullptr, 0);
}

TEST_F(ClientTableTest, ExecMakesANewClient) {
  const pid_t child = spawn([] { ::execlp("sleep", "sleep", "1000", nullptr); });
  const ClientRef before = clients_.resolve(child).value();
  EXPECT_EQ(clients_.resolve_fresh(child).value(), before);
  release();
  ClientRef after = before;
  while (after == before) after = clients_.resolve_fresh(child).value();
  EXPECT_TRUE(before->gone());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(ClientTableTest, ClosedConnectionWithoutExecKeepsTheClient) {
  const ClientRef self = clients_.resolve(::getpid()).value();
  clients_.connection_closed(self);
  EXPECT_FALSE(self->gone());
}

TEST_F(ClientTableTest, ForkedChildIsAnotherClient) {
  const pid_t child = spawn([] {});
  EXPECT_NE(clients_.resolve(child).value(), clients_.resolve(::getpid()).value());
  release();
  ::waitpid(child, nullptr, 0);
}

class ClientMemoryTest : public ClientTableTest {
 protected:
  ClientMemory& memory_ = clients_.resolve(::getpid()).value()->memory();
};

TEST_F(ClientMemoryTest, ReadsAndWrites) {
  std::uint64_t there = 7;
  const auto address = reinterpret_cast<std::uint64_t>(&there);
  EXPECT_EQ(memory_.read_value<std::uint64_t>(address).value(), 7u);
  ASSERT_TRUE(memory_.write_value(address, std::uint64_t{8}));
  EXPECT_EQ(there, 8u);
}

TEST_F(ClientMemoryTest, BadPointersAreEfault) {
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{1} << 47, ~std::uint64_t{0} - 3}) {
    EXPECT_EQ(memory_.read_value<std::uint64_t>(address).error(), Errno(EFAULT)) << address;
    EXPECT_EQ(memory_.write_value(address, std::uint64_t{0}).error(), Errno(EFAULT)) << address;
  }
}

TEST_F(ClientMemoryTest, PartlyUnmappedRangeIsEfaultButTellsHowFar) {
  auto* pages = static_cast<std::byte*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::mprotect(pages + 4096, 4096, PROT_NONE);
  std::vector<std::byte> into(8192);
  const auto address = reinterpret_cast<std::uint64_t>(pages);
  EXPECT_EQ(memory_.read(address, into).error(), Errno(EFAULT));
  EXPECT_EQ(memory_.read_some(address, into).value(), 4096u);
  ::munmap(pages, 8192);
}

TEST_F(ClientMemoryTest, ReadOnlyPagesRefuseWrites) {
  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(memory_.write_value(reinterpret_cast<std::uint64_t>(page), 1).error(), Errno(EFAULT));
  ::munmap(page, 4096);
}

TEST_F(ClientTableTest, DescriptorsOfTheClient) {
  const ClientRef self = clients_.resolve(::getpid()).value();
  EXPECT_EQ(self->stat_fd(-1).error(), Errno(EBADF));
  EXPECT_EQ(self->stat_fd(1'000'000).error(), Errno(EBADF));
  const UniqueFd memfd = make_memfd("x", 4096).value();
  EXPECT_EQ(self->stat_fd(memfd.get()).value().st_size, 4096);
}

}  // namespace
}  // namespace understudy
