#include "sim/core/reactor.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <future>

namespace understudy {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  UniqueFd reader, writer;
};

TEST(Reactor, RunsAFunctionEachTimeADescriptorIsReady) {
  Reactor reactor;
  Pipe pipe;
  std::promise<void> twice;
  int runs = 0;
  const auto id = reactor.watch(pipe.reader.get(), EPOLLIN, [&](std::uint32_t) {
    char byte;
    ASSERT_EQ(::read(pipe.reader.get(), &byte, 1), 1);
    if (++runs == 2) twice.set_value();
  });
  ASSERT_TRUE(id);
  ASSERT_EQ(::write(pipe.writer.get(), "ab", 2), 2);
  twice.get_future().wait();
  reactor.unwatch(id.value());
}

TEST(Reactor, UnwatchFromInsideItsOwnFunction) {
  Reactor reactor;
  Pipe pipe;
  std::promise<void> done;
  std::promise<Reactor::WatchId> known;
  auto id_later = known.get_future();
  const auto id = reactor.watch(pipe.reader.get(), EPOLLIN, [&](std::uint32_t) {
    reactor.unwatch(id_later.get());
    done.set_value();
  });
  known.set_value(id.value());
  ASSERT_EQ(::write(pipe.writer.get(), "x", 1), 1);
  done.get_future().wait();
}

TEST(Reactor, PostedWorkRuns) {
  Reactor reactor;
  std::promise<void> done;
  reactor.post([&] { done.set_value(); });
  done.get_future().wait();
}

TEST(Reactor, WatchingARegularFileFails) {
  Reactor reactor;
  const UniqueFd memfd = make_memfd("x", 4096).value();
  EXPECT_EQ(reactor.watch(memfd.get(), EPOLLIN, [](std::uint32_t) {}).error(), Errno(EPERM));
}

}  // namespace
}  // namespace understudy
