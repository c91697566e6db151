// What drm_ioctl does before and after a handler. Expected values: recordings of vgem on Linux 7.3.
#include <array>
#include <cstring>

#include "tests/drm/plain_device.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

constexpr std::uint32_t command(unsigned direction, char type, unsigned nr, unsigned size) {
  return direction << 30 | size << 16 | static_cast<unsigned>(type) << 8 | nr;
}
constexpr unsigned kNone = 0, kWrite = 1, kRead = 2, kReadWrite = 3;
constexpr unsigned kVersionNr = 0x00, kGemCloseNr = 0x09, kGetCapNr = 0x0c;

class DrmDispatch : public DrmTest {
 protected:
  int raw(std::uint32_t word, void* argument = nullptr) { return client_.ioctl(file_, word, argument); }
};

TEST_F(DrmDispatch, OnlyTypeDIsKnown) {
  drm_get_cap args{DRM_CAP_PRIME, 0};
  for (const char type : {'K', 'b', 'D', 'x'}) {
    EXPECT_EQ(raw(command(kReadWrite, type, kGetCapNr, sizeof args), &args), -ENOTTY) << type;
    EXPECT_EQ(raw(command(kNone, type, 0xff, 0)), -ENOTTY) << type;
  }
}

TEST_F(DrmDispatch, UnknownNumbersAreEinvalWhateverThePointer) {
  for (const unsigned nr :
       {0x0eu, 0x0fu, 0x18u, 0x19u, 0x2fu, 0x39u, 0x3du, 0x3eu, 0x60u, 0x9fu, 0xd3u, 0xffu}) {
    EXPECT_EQ(raw(command(kNone, 'd', nr, 0)), -EINVAL) << nr;
    EXPECT_EQ(raw(command(kReadWrite, 'd', nr, 32), reinterpret_cast<void*>(kBadPointer)), -EINVAL) << nr;
  }
}

TEST_F(DrmDispatch, UnknownNumbersAreCounted) {
  raw(command(kNone, 'd', 0x9f, 0));
  ASSERT_EQ(machine_.ledger().unsupported_calls().size(), 1u);
  EXPECT_EQ(machine_.ledger().unsupported_calls()[0].file, "dri/renderD128");
}

TEST_F(DrmDispatch, PermissionIsCheckedAfterTheCopyIn) {
  EXPECT_EQ(raw(GetMagic::kCmd, reinterpret_cast<void*>(kBadPointer)), -EFAULT);
  drm_auth args{};
  EXPECT_EQ(raw(GetMagic::kCmd, &args), -EACCES);
}

TEST_F(DrmDispatch, RenderNodesAllowNothingOfModeSettingAndMasters) {
  std::array<std::uint64_t, 64> args{};
  for (const std::uint32_t word :
       {GetUnique::kCmd, GetClient::kCmd, GetStats::kCmd, SetVersion::kCmd, GemFlink::kCmd, GemOpen::kCmd,
        SetClientCap::kCmd, AuthMagic::kCmd, SetMaster::kCmd, DropMaster::kCmd, WaitVblank::kCmd,
        ModeGetresources::kCmd, ModeCreateDumb::kCmd, ModeMapDumb::kCmd, ModeDestroyDumb::kCmd}) {
    EXPECT_EQ(raw(word, args.data()), -EACCES) << std::hex << word;
  }
}

TEST_F(DrmDispatch, ADirectionCountsOnlyWhenBothSidesHaveIt) {
  drm_get_cap args{DRM_CAP_PRIME, 77};
  // Without the write bit capability 0 arrives, which no driver without mode setting has.
  EXPECT_EQ(raw(command(kRead, 'd', kGetCapNr, sizeof args), &args), -EOPNOTSUPP);
  EXPECT_EQ(args.capability, 0u);
  args = {DRM_CAP_PRIME, 77};
  EXPECT_EQ(raw(command(kWrite, 'd', kGetCapNr, sizeof args), &args), 0);
  EXPECT_EQ(args.value, 77u);
  EXPECT_EQ(raw(command(kNone, 'd', kGetCapNr, sizeof args), reinterpret_cast<void*>(kBadPointer)),
            -EOPNOTSUPP);
  // GEM_CLOSE only writes: its argument is not read back, and not read at all without the bit.
  EXPECT_EQ(raw(command(kRead, 'd', kGemCloseNr, 8), reinterpret_cast<void*>(kBadPointer)), -EINVAL);
}

TEST_F(DrmDispatch, AShorterStructIsZeroFilledAndCutOnTheWayBack) {
  drm_get_cap args{DRM_CAP_PRIME, 77};
  EXPECT_EQ(raw(command(kReadWrite, 'd', kGetCapNr, 8), &args), 0);
  EXPECT_EQ(args.value, 77u);
  args.capability = std::uint64_t{1} << 32 | DRM_CAP_PRIME;
  EXPECT_EQ(raw(command(kReadWrite, 'd', kGetCapNr, sizeof args), &args), -EOPNOTSUPP);
  EXPECT_EQ(raw(command(kReadWrite, 'd', kGetCapNr, 4), &args), 0) << "only the low half arrives";
  drm_version version{};
  version.version_major = 77;
  version.version_minor = 78;
  EXPECT_EQ(raw(command(kReadWrite, 'd', kVersionNr, 4), &version), 0);
  EXPECT_EQ(version.version_major, 1);
  EXPECT_EQ(version.version_minor, 78);
}

TEST_F(DrmDispatch, ALongerStructComesBackWhole) {
  struct {
    drm_get_cap args{DRM_CAP_PRIME, 77};
    std::array<std::uint8_t, 48> tail;
  } longer;
  longer.tail.fill(0xaa);
  EXPECT_EQ(raw(command(kReadWrite, 'd', kGetCapNr, sizeof longer), &longer), 0);
  EXPECT_EQ(longer.args.value, 3u);
  for (const std::uint8_t byte : longer.tail) EXPECT_EQ(byte, 0xaa);
}

TEST_F(DrmDispatch, AnUnpluggedDeviceAnswersEnodev) {
  make_handle(file_);
  device_->unplug();
  drm_get_cap args{DRM_CAP_PRIME, 0};
  EXPECT_EQ(client_.ioctl<GetCap>(file_, args), -ENODEV);
  EXPECT_EQ(raw(command(kNone, 'x', 0, 0)), -ENODEV) << "before the type is looked at";
  EXPECT_EQ(client_.mmap(file_, kPageBytes, 1, last_object_->mmap_offset_bytes()),
            reinterpret_cast<void*>(-1));
  EXPECT_EQ(errno, ENODEV);
  Errno error(0);
  EXPECT_EQ(client_.open("dri/renderD128", O_RDWR, &error), nullptr);
  EXPECT_EQ(error, Errno(ENODEV));
}

TEST_F(DrmDispatch, ExclusiveOpenIsEbusy) {
  Errno error(0);
  EXPECT_EQ(client_.open("dri/renderD128", O_RDWR | O_EXCL, &error), nullptr);
  EXPECT_EQ(error, Errno(EBUSY));
}

TEST_F(DrmDispatch, VersionGivesLengthsAndAsMuchTextAsFits) {
  drm_version args{};
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
  EXPECT_EQ(args.version_major, 1);
  EXPECT_EQ(args.version_minor, 2);
  EXPECT_EQ(args.name_len, 5u);
  EXPECT_EQ(args.date_len, 1u);
  EXPECT_EQ(args.desc_len, 12u);

  std::array<char, 8> name;
  name.fill('#');
  args = {};
  args.name = reinterpret_cast<std::uint64_t>(name.data());
  args.name_len = 3;
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
  EXPECT_EQ(std::string(name.data(), name.size()), "pla#####");
  EXPECT_EQ(args.name_len, 5u);
  // No terminating zero, room or not.
  args.name_len = name.size();
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
  EXPECT_EQ(std::string(name.data(), name.size()), "plain###");
}

TEST_F(DrmDispatch, VersionWithABadPointerIsEfaultUnlessNothingIsAskedFor) {
  drm_version args{};
  args.name = kBadPointer;
  args.name_len = 1;
  EXPECT_EQ(client_.ioctl<Version>(file_, args), -EFAULT);
  EXPECT_EQ(args.name_len, 5u) << "written back although it failed";
  args.name_len = 0;
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
  args.name = 0;
  args.name_len = 64;
  EXPECT_EQ(client_.ioctl<Version>(file_, args), 0);
}

TEST_F(DrmDispatch, CapabilitiesOfADriverWithoutModeSetting) {
  const auto value_of = [&](std::uint64_t capability) {
    drm_get_cap args{capability, 77};
    const int result = client_.ioctl<GetCap>(file_, args);
    return result < 0 ? result : static_cast<int>(args.value);
  };
  EXPECT_EQ(value_of(DRM_CAP_PRIME), 3);
  EXPECT_EQ(value_of(DRM_CAP_TIMESTAMP_MONOTONIC), 1);
  EXPECT_EQ(value_of(DRM_CAP_SYNCOBJ), 1);
  EXPECT_EQ(value_of(DRM_CAP_SYNCOBJ_TIMELINE), 1);
  EXPECT_EQ(value_of(DRM_CAP_DUMB_BUFFER), -EOPNOTSUPP);
  EXPECT_EQ(value_of(0), -EOPNOTSUPP);
  EXPECT_EQ(value_of(0x100000005), -EOPNOTSUPP);
  EXPECT_EQ(value_of(~0ull), -EOPNOTSUPP);
}

TEST_F(DrmDispatch, ClientNamesArePrintableAndShort) {
  const auto set = [&](std::uint64_t length, const char* name) {
    drm_set_client_name args{length, reinterpret_cast<std::uint64_t>(name)};
    return client_.ioctl<SetClientName>(file_, args);
  };
  const std::string long_name(65, 'n');
  EXPECT_EQ(set(4, "demo"), 0);
  EXPECT_EQ(set(0, nullptr), 0);
  EXPECT_EQ(set(64, long_name.c_str()), 0);
  EXPECT_EQ(set(65, long_name.c_str()), -EINVAL);
  EXPECT_EQ(set(5, "demo"), -EINVAL) << "the terminating zero does not count";
  EXPECT_EQ(set(3, "a b"), -EINVAL);
  EXPECT_EQ(set(3, "a\n"), -EINVAL);
  EXPECT_EQ(set(2, "\xc3\xa4"), -EINVAL);
  EXPECT_EQ(set(4, reinterpret_cast<const char*>(kBadPointer)), -EFAULT);
}

}  // namespace
}  // namespace understudy::drm
