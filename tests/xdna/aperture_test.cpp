#include "sim/xdna/aperture.h"

#include <gtest/gtest.h>

namespace understudy::xdna {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSlot = Aperture::kAlignmentBytes;

TEST(Aperture, StartsAtItsBaseAndAlignsTo32KiB) {
  Aperture aperture(64 << 20);
  EXPECT_EQ(aperture.allocate(kPage).value(), 0x4000000u);
  EXPECT_EQ(aperture.allocate(kPage).value(), 0x4000000u + kSlot);
}

TEST(Aperture, ReusesTheBestFittingHole) {
  Aperture aperture(64 << 20);
  const std::uint64_t big = aperture.allocate(4 * kSlot).value();
  (void)aperture.allocate(kPage);
  const std::uint64_t small = aperture.allocate(kSlot).value();
  (void)aperture.allocate(kPage);
  aperture.release(big, 4 * kSlot);
  aperture.release(small, kSlot);
  EXPECT_EQ(aperture.allocate(kSlot).value(), small);
}

TEST(Aperture, FullApertureIsEnospc) {
  Aperture aperture(2 * kSlot);
  (void)aperture.allocate(kPage);
  (void)aperture.allocate(kPage);
  EXPECT_EQ(aperture.allocate(kPage).error(), Errno(ENOSPC));
  EXPECT_EQ(aperture.allocate(3 * kSlot).error(), Errno(ENOSPC));
}

TEST(Aperture, ReleasedNeighboursJoin) {
  Aperture aperture(4 * kSlot);
  std::uint64_t parts[4];
  for (auto& part : parts) part = aperture.allocate(kSlot).value();
  for (const int index : {1, 3, 2, 0}) aperture.release(parts[index], kSlot);
  EXPECT_EQ(aperture.allocate(4 * kSlot).value(), 0x4000000u);
}

}  // namespace
}  // namespace understudy::xdna
