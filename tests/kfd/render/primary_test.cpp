// The card node of a GPU. Expected values: amdgpu_gem.c: amdgpu_mode_dumb_create, facts/kfd.md D.3.
#include <array>

#include "tests/kfd/render/render_fixture.h"

namespace understudy::kfd {
namespace {

using namespace uapi::drm;

class CardNode : public RenderTest {
 protected:
  CardNode() : RenderTest("gfx1030"), card_(client_.open("dri/card0")) {}
  int create_dumb(std::uint32_t width, std::uint32_t height, std::uint32_t bpp) {
    dumb_ = {};
    dumb_.width = width;
    dumb_.height = height;
    dumb_.bpp = bpp;
    return client_.ioctl<ModeCreateDumb>(card_, dumb_);
  }
  const FileRef card_;
  drm_mode_create_dumb dumb_{};
};

TEST_F(CardNode, DumbBuffersHaveAlignedPitches) {
  EXPECT_EQ(create_dumb(100, 10, 32), 0);
  EXPECT_EQ(dumb_.pitch, 128u * 4);
  EXPECT_EQ(dumb_.size, 2 * kPage);
  EXPECT_EQ(create_dumb(1, 1, 8), 0);
  EXPECT_EQ(dumb_.pitch, 256u);
  EXPECT_EQ(create_dumb(129, 1, 16), 0);
  EXPECT_EQ(dumb_.pitch, 256u * 2);
  EXPECT_EQ(create_dumb(0, 1, 32), -EINVAL);
}

TEST_F(CardNode, DumbBuffersAreRefusedOnTheRenderNode) {
  EXPECT_EQ(client_.ioctl<ModeCreateDumb>(file_, dumb_), -EACCES);
}

TEST_F(CardNode, CapabilitiesAreThoseOfADriverWithModeSetting) {
  const auto value_of = [&](std::uint64_t capability) {
    drm_get_cap args{capability, 77};
    const int result = client_.ioctl<GetCap>(file_, args);
    return result < 0 ? result : static_cast<int>(args.value);
  };
  EXPECT_EQ(value_of(DRM_CAP_DUMB_BUFFER), 1);
  EXPECT_EQ(value_of(DRM_CAP_PRIME), 3);
  EXPECT_EQ(value_of(DRM_CAP_SYNCOBJ), 1);
  EXPECT_EQ(value_of(DRM_CAP_SYNCOBJ_TIMELINE), 1);
  EXPECT_EQ(value_of(DRM_CAP_TIMESTAMP_MONOTONIC), 1);
  EXPECT_EQ(value_of(0xa), -EINVAL);
}

TEST_F(CardNode, TheDriverIsAmdgpu) {
  std::array<char, 16> name{};
  drm_version args{};
  args.name = reinterpret_cast<std::uint64_t>(name.data());
  args.name_len = name.size();
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
  EXPECT_STREQ(name.data(), "amdgpu");
  EXPECT_EQ(args.version_major, 3);
  EXPECT_EQ(args.version_minor, 64);
}

TEST_F(CardNode, DriverCommandsWorkForAuthenticatedFiles) {
  EXPECT_GT(create_bo_in(card_, kPage), 0);
}

}  // namespace
}  // namespace understudy::kfd
