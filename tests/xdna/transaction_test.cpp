#include "sim/xdna/transaction.h"

#include <gtest/gtest.h>

namespace understudy::xdna {
namespace {

const TransactionLimits kStrix{0, 8, 6};

Verdict run(std::vector<std::uint32_t> words) {
  const NpuMemory memory(std::make_shared<DeviceHeap>(0, false), {});
  Watchdog watchdog([] { return true; });
  return run_transaction(std::as_bytes(std::span(words)), Invocation{}, memory, kStrix, watchdog, false);
}

std::vector<std::uint32_t> program(std::vector<std::uint32_t> operations, std::uint32_t count) {
  std::vector<std::uint32_t> words{0x06030100, 0x104, count,
                                   static_cast<std::uint32_t>(16 + operations.size() * 4)};
  words.insert(words.end(), operations.begin(), operations.end());
  return words;
}

TEST(Transaction, RegisterWritesAndSatisfiedPollsComplete) {
  EXPECT_EQ(run(program({0, 0, 0x200000, 0, 5, 24, 4, 0, 0x200000, 0, 5, 0xff, 28, 5}, 3)).kind,
            Verdict::Kind::kCompleted);
}

TEST(Transaction, PollThatNobodySatisfiesIsUnsupportedAtItsIndex) {
  const Verdict verdict = run(program({5, 4, 0, 0x200000, 0, 1, 1, 28}, 2));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kUnsupported);
  EXPECT_EQ(verdict.operation_index, 1u);
}

TEST(Transaction, UnknownSizedOperationsAreSkipped) {
  EXPECT_EQ(run(program({200, 12, 7, 5}, 2)).kind, Verdict::Kind::kCompleted);
}

TEST(Transaction, UnknownUnsizedOperationIsAnError) {
  EXPECT_EQ(run(program({99, 0, 0}, 1)).kind, Verdict::Kind::kError);
}

TEST(Transaction, MalformedStreams) {
  EXPECT_EQ(run({}).kind, Verdict::Kind::kError);
  EXPECT_EQ(run({0x06030100, 0x104, 1, 1000}).kind, Verdict::Kind::kError)
      << "says more bytes than there are";
  EXPECT_EQ(run(program({0, 0, 0}, 1)).kind, Verdict::Kind::kError) << "cut operation";
  EXPECT_EQ(run(program({1, 0, 0, 0}, 1)).kind, Verdict::Kind::kError) << "zero length would never end";
  EXPECT_EQ(run(program({128, 0, 0, 0}, 1)).kind, Verdict::Kind::kError);
  EXPECT_EQ(run(program({5}, ~0u)).kind, Verdict::Kind::kError);
  EXPECT_EQ(run(program({0, 0, 9u << 25, 0, 5, 24}, 1)).kind, Verdict::Kind::kError)
      << "column outside the array";
}

TEST(Transaction, BlockWriteShorterThanItsHeaderIsAnError) {
  EXPECT_EQ(run(program({1, 0, 0, 8}, 1)).kind, Verdict::Kind::kError);
}

TEST(Watchdog, StopsForeverAtItsLimit) {
  Watchdog watchdog([] { return true; }, 2);
  EXPECT_TRUE(watchdog.step());
  EXPECT_TRUE(watchdog.step());
  EXPECT_FALSE(watchdog.step());
  EXPECT_TRUE(watchdog.stopped());
}

TEST(Watchdog, StopsWhatNobodyWants) {
  bool wanted = true;
  Watchdog watchdog([&] { return wanted; });
  for (std::uint64_t word = 0; word < Watchdog::kAskEveryWords; ++word) ASSERT_TRUE(watchdog.step());
  wanted = false;
  EXPECT_FALSE(watchdog.step());
}

TEST(ErtPacket, FirstNonZeroMaskWordChoosesTheCu) {
  std::vector<std::uint32_t> words{1 | 1u << 10 | 4u << 12, 0, 0x8, 1, 2};
  const auto packet = read_packet(std::as_bytes(std::span(words)));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->cu_index, 3u) << "the word's position is not added";
  EXPECT_EQ(packet->payload.size(), 8u);
}

TEST(ErtPacket, CountMustLeaveAPayloadAndFit) {
  std::vector<std::uint32_t> words{1u << 12, 1, 0};
  EXPECT_FALSE(read_packet(std::as_bytes(std::span(words))));
  words[0] = 3u << 12;
  EXPECT_FALSE(read_packet(std::as_bytes(std::span(words))));
  words[0] = 2u << 12;
  EXPECT_TRUE(read_packet(std::as_bytes(std::span(words))));
}

}  // namespace
}  // namespace understudy::xdna
