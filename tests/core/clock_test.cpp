#include "sim/core/clock.h"

#include <gtest/gtest.h>

#include <future>

namespace understudy {
namespace {

TEST(SystemClock, RunsTimersInOrderOfDeadline) {
  SystemClock clock;
  std::promise<std::string> done;
  std::string order;
  const std::uint64_t now = clock.now_ns();
  clock.at(now + 2'000'000, [&] {
    order += "b";
    done.set_value(order);
  });
  clock.at(now + 1'000'000, [&] { order += "a"; });
  EXPECT_EQ(done.get_future().get(), "ab");
}

TEST(SystemClock, CancelledTimerDoesNotRun) {
  SystemClock clock;
  std::promise<void> later;
  bool ran = false;
  const auto timer = clock.after(1'000'000, [&] { ran = true; });
  EXPECT_TRUE(clock.cancel(timer));
  EXPECT_FALSE(clock.cancel(timer));
  clock.after(2'000'000, [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_FALSE(ran);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const std::uint64_t start = clock.now_ns();
  std::uint64_t ran_at = 0;
  clock.after(500, [&] { ran_at = clock.now_ns(); });
  clock.advance(499);
  EXPECT_EQ(ran_at, 0u);
  clock.advance(10);
  EXPECT_EQ(ran_at, start + 500);
  EXPECT_EQ(clock.now_ns(), start + 509);
}

TEST(Clock, DelayBeyondTheEndOfTimeNeverRuns) {
  ManualClock clock;
  bool ran = false;
  clock.after(UINT64_MAX, [&] { ran = true; });
  clock.advance(1'000'000'000'000);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace understudy
