#include "sim/virtio_gpu/wire/guest_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kPage = kGuestPageBytes;

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

std::uint64_t total(const std::vector<MemoryRun>& runs) {
  std::uint64_t sum = 0;
  for (const MemoryRun& run : runs) sum += run.length_bytes;
  return sum;
}

TEST(GuestMemory, ScatteredPagesAreSeenInOrderThroughTheirRuns) {
  GuestMemory memory(64 * kPage);
  const auto pages = std::make_shared<KernelPages>(32 * kPage);
  const std::vector<std::byte> written = pattern(32 * kPage);
  std::memcpy(pages->direct().data(), written.data(), written.size());
  auto placement = memory.place(pages, {1, 3, 7});
  ASSERT_TRUE(placement);
  EXPECT_GT(placement.value().runs().size(), 32u / 3);
  EXPECT_EQ(total(placement.value().runs()), 32 * kPage);

  std::vector<MemoryPiece> pieces;
  for (const MemoryRun& run : placement.value().runs())
    ASSERT_TRUE(memory.look_up(run.address, run.length_bytes, pieces));
  EXPECT_EQ(pieces.size(), 1u) << "pieces that follow each other in the pages are one";
  std::vector<std::byte> read(written.size());
  EXPECT_EQ(copy_from(pieces, 0, read), read.size());
  EXPECT_EQ(read, written);
}

TEST(GuestMemory, TheSeedDecidesTheLayout) {
  GuestMemory memory(1024 * kPage);
  const auto lengths = [&](std::uint64_t seed) {
    auto placement = memory.place(std::make_shared<KernelPages>(64 * kPage), {1, 8, seed});
    std::vector<std::uint64_t> result;
    for (const MemoryRun& run : placement.value().runs()) result.push_back(run.length_bytes);
    return result;
  };
  EXPECT_EQ(lengths(1), lengths(1));
  EXPECT_NE(lengths(1), lengths(2));
}

TEST(GuestMemory, NothingLiesBetweenRunsNorAtAnAddressGivenBack) {
  GuestMemory memory(64 * kPage);
  std::uint64_t stale = 0;
  {
    auto placement = memory.place(std::make_shared<KernelPages>(2 * kPage), {1, 1, 0});
    ASSERT_TRUE(placement);
    ASSERT_EQ(placement.value().runs().size(), 2u);
    stale = placement.value().address();
    std::vector<MemoryPiece> pieces;
    EXPECT_EQ(memory.look_up(stale, 2 * kPage, pieces).error(), Errno(EFAULT));
    EXPECT_EQ(memory.look_up(stale - 1, 1, pieces).error(), Errno(EFAULT));
    EXPECT_TRUE(memory.look_up(stale, kPage, pieces));
  }
  std::vector<MemoryPiece> pieces;
  EXPECT_EQ(memory.look_up(stale, 1, pieces).error(), Errno(EFAULT));
  EXPECT_EQ(memory.placement_count(), 0u);
}

TEST(GuestMemory, APieceOutlivesItsPlacement) {
  GuestMemory memory(64 * kPage);
  std::vector<MemoryPiece> pieces;
  {
    auto placement = memory.place_contiguous(std::make_shared<KernelPages>(kPage));
    ASSERT_TRUE(memory.look_up(placement.value().address(), kPage, pieces));
  }
  const std::byte value{42};
  EXPECT_EQ(copy_to(pieces, 10, std::span(&value, 1)), 1u);
}

TEST(GuestMemory, AllocationsStopAtTheRamSizeAndOtherPagesDoNotCount) {
  GuestMemory memory(4 * kPage);
  auto first = memory.place(std::make_shared<KernelPages>(3 * kPage), {});
  ASSERT_TRUE(first);
  EXPECT_EQ(memory.place(std::make_shared<KernelPages>(2 * kPage), {}).error(), Errno(ENOMEM));
  EXPECT_TRUE(memory.place_pinned(std::make_shared<KernelPages>(4 * kPage), {}));
  EXPECT_TRUE(memory.place_contiguous(std::make_shared<KernelPages>(4 * kPage)));
  EXPECT_EQ(memory.place_pinned(std::make_shared<KernelPages>(5 * kPage), {}).error(), Errno(ENOMEM));
  EXPECT_EQ(memory.place_contiguous(std::make_shared<KernelPages>(5 * kPage)).error(), Errno(ENOMEM));
  first.value() = Placement();
  EXPECT_TRUE(memory.place(std::make_shared<KernelPages>(4 * kPage), {}));
}

TEST(GuestMemory, AddressesThatWrapAroundAreRefused) {
  GuestMemory memory(4 * kPage);
  auto placement = memory.place_contiguous(std::make_shared<KernelPages>(kPage));
  std::vector<MemoryPiece> pieces;
  EXPECT_EQ(memory.look_up(placement.value().address(), ~std::uint64_t{0}, pieces).error(), Errno(EFAULT));
}

TEST(GuestMemory, CopiesStopAtTheEndOfTheList) {
  const auto pages = std::make_shared<KernelPages>(kPage);
  const std::vector<MemoryPiece> pieces{{pages, 0, 16}, {pages, 100, 16}};
  EXPECT_EQ(total_bytes(pieces), 32u);
  std::vector<std::byte> bytes(64);
  EXPECT_EQ(copy_from(pieces, 8, bytes), 24u);
  EXPECT_EQ(copy_from(pieces, 32, bytes), 0u);
}

}  // namespace
}  // namespace understudy::virtio_gpu
