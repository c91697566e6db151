// Primary nodes: masters, magic numbers, global names, dumb buffers. Expected values: recordings of vgem on
// Linux 7.3.
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "tests/drm/plain_device.h"
#include "tests/support/child_process.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

constexpr uid_t kNobody = 65534;

class PrimaryTest : public DrmTest {
 protected:
  PrimaryTest() : master_(client_.open("dri/card0")), second_(client_.open("dri/card0")) {}

  int set_master(const FileRef& file) { return client_.ioctl(file, SetMaster::kCmd, nullptr); }
  int drop_master(const FileRef& file) { return client_.ioctl(file, DropMaster::kCmd, nullptr); }
  std::uint32_t magic_of(const FileRef& file) {
    drm_auth args{};
    EXPECT_EQ(client_.ioctl<GetMagic>(file, args), 0);
    return args.magic;
  }
  int authenticate(const FileRef& file, std::uint32_t magic) {
    drm_auth args{magic};
    return client_.ioctl<AuthMagic>(file, args);
  }
  int set_version(int di_major, int di_minor, int dd_major, int dd_minor) {
    version_ = {di_major, di_minor, dd_major, dd_minor};
    return client_.ioctl<SetVersion>(master_, version_);
  }
  std::uint32_t name_of(const FileRef& file, std::uint32_t handle) {
    drm_gem_flink args{handle, 0};
    EXPECT_EQ(client_.ioctl<GemFlink>(file, args), 0);
    return args.name;
  }
  int open_name(const FileRef& file, std::uint32_t name) {
    drm_gem_open args{name, 0, 0};
    const int result = client_.ioctl<GemOpen>(file, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }
  static bool privileged() { return ::geteuid() == 0; }

  const FileRef master_;
  const FileRef second_;
  drm_set_version version_{};
};

TEST_F(PrimaryTest, TheFirstOpenerIsMasterAndAuthenticatesOthers) {
  const std::uint32_t magic = magic_of(second_);
  EXPECT_NE(magic_of(master_), magic);
  EXPECT_EQ(magic_of(second_), magic) << "asked twice, the same";
  EXPECT_EQ(authenticate(second_, magic), -EACCES);
  EXPECT_EQ(authenticate(master_, magic), 0);
  EXPECT_EQ(authenticate(master_, magic), -EINVAL) << "used up";
  EXPECT_EQ(magic_of(second_), magic);
  for (const std::uint32_t unknown : {0u, 99999u, ~0u}) EXPECT_EQ(authenticate(master_, unknown), -EINVAL);
}

TEST_F(PrimaryTest, ThereIsOneMaster) {
  if (!privileged()) GTEST_SKIP() << "only root becomes master later";
  EXPECT_EQ(set_master(master_), 0) << "already is";
  EXPECT_EQ(set_master(second_), -EBUSY);
  EXPECT_EQ(drop_master(second_), -EINVAL);
  EXPECT_EQ(drop_master(master_), 0);
  EXPECT_EQ(drop_master(master_), -EINVAL);
  EXPECT_EQ(set_master(second_), 0);
  EXPECT_EQ(set_master(master_), -EBUSY);
  EXPECT_EQ(drop_master(second_), 0);
  EXPECT_EQ(set_master(master_), 0);
}

TEST_F(PrimaryTest, TheSeatIsFreeWhenTheMasterCloses) {
  client_.close(master_);
  const FileRef next = client_.open("dri/card0");
  EXPECT_EQ(authenticate(next, magic_of(next)), 0);
}

TEST_F(PrimaryTest, WithoutRightsOnlyWhoWasMasterMayBeItAgain) {
  if (!privileged()) GTEST_SKIP() << "cannot give up rights it does not have";
  test::SharedMemory memory;
  const test::ChildProcess child([] {
    if (::setuid(kNobody) != 0) ::_exit(1);
  });
  test::TestClient nobody(machine_, child.pid());
  client_.close(master_);
  client_.close(second_);
  const FileRef first = nobody.open("dri/card0");
  const FileRef second = nobody.open("dri/card0");
  EXPECT_EQ(nobody.ioctl(second, SetMaster::kCmd, nullptr), -EACCES);
  EXPECT_EQ(nobody.ioctl(second, DropMaster::kCmd, nullptr), -EACCES);
  EXPECT_EQ(nobody.ioctl(first, DropMaster::kCmd, nullptr), 0);
  EXPECT_EQ(nobody.ioctl(first, SetMaster::kCmd, nullptr), 0);

  auto& flink = memory.put(drm_gem_flink{1, 0});
  EXPECT_EQ(nobody.ioctl<GemFlink>(second, flink), -EACCES) << "not authenticated";
  auto& auth = memory.put(drm_auth{});
  ASSERT_EQ(nobody.ioctl<GetMagic>(second, auth), 0);
  EXPECT_EQ(nobody.ioctl<AuthMagic>(second, auth), -EACCES);
  EXPECT_EQ(nobody.ioctl<AuthMagic>(first, auth), 0);
  memory.put(drm_gem_flink{1, 0});
  EXPECT_EQ(nobody.ioctl<GemFlink>(second, flink), -ENOENT) << "now it is";
}

TEST_F(PrimaryTest, RootIsAuthenticatedFromTheStart) {
  if (!privileged()) GTEST_SKIP() << "not root";
  EXPECT_TRUE(drm(second_).primary().authenticated());
}

TEST_F(PrimaryTest, SetVersionChecksWhatIsAskedForAndAnswersWithWhatThereIs) {
  EXPECT_EQ(set_version(-1, -1, -1, -1), 0);
  EXPECT_EQ(version_.drm_di_major, 1);
  EXPECT_EQ(version_.drm_di_minor, 4);
  EXPECT_EQ(version_.drm_dd_major, 1);
  EXPECT_EQ(version_.drm_dd_minor, 2);
  EXPECT_EQ(set_version(-1, 5, -1, -1), 0) << "the minor alone does not count";
  EXPECT_EQ(set_version(1, 0, -1, -1), 0);
  EXPECT_EQ(set_version(1, 4, 1, 2), 0);
  EXPECT_EQ(set_version(1, 5, -1, -1), -EINVAL);
  EXPECT_EQ(version_.drm_di_minor, 4) << "written back although it failed";
  EXPECT_EQ(set_version(0, 0, -1, -1), -EINVAL);
  EXPECT_EQ(set_version(2, 0, -1, -1), -EINVAL);
  EXPECT_EQ(set_version(1, -1, -1, -1), -EINVAL);
  EXPECT_EQ(set_version(-1, -1, 99, 0), -EINVAL);
  EXPECT_EQ(set_version(-1, -1, 1, 3), -EINVAL);
}

TEST_F(PrimaryTest, TheBusIdIsThereOnceTheInterfaceVersionIsSet) {
  std::array<char, 32> text;
  text.fill('#');
  drm_unique args{text.size(), reinterpret_cast<std::uint64_t>(text.data())};
  EXPECT_EQ(client_.ioctl<GetUnique>(master_, args), 0);
  EXPECT_EQ(args.unique_len, 0u);
  ASSERT_EQ(set_version(1, 1, -1, -1), 0);
  args.unique_len = 4;
  EXPECT_EQ(client_.ioctl<GetUnique>(second_, args), 0);
  EXPECT_EQ(args.unique_len, 16u);
  EXPECT_EQ(text[0], '#') << "not enough room: nothing is written";
  EXPECT_EQ(client_.ioctl<GetUnique>(second_, args), 0);
  EXPECT_EQ(std::string(text.data(), 17), "pci:0000:03:00.0#");
}

TEST_F(PrimaryTest, GetClientKnowsOnlyTheCaller) {
  drm_client args{};
  args.magic = 77;
  EXPECT_EQ(client_.ioctl<GetClient>(master_, args), 0);
  EXPECT_EQ(args.auth, 1);
  EXPECT_EQ(args.pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(args.uid, 65534u);
  EXPECT_EQ(args.magic, 0u);
  args.idx = 1;
  EXPECT_EQ(client_.ioctl<GetClient>(master_, args), -EINVAL);
}

TEST_F(PrimaryTest, OldCallsDoNothingOrRefuse) {
  drm_stats stats{};
  stats.count = 77;
  EXPECT_EQ(client_.ioctl<GetStats>(master_, stats), 0);
  EXPECT_EQ(stats.count, 0u);
  drm_unique unique{};
  EXPECT_EQ(client_.ioctl<SetUnique>(master_, unique), -EINVAL);
}

TEST_F(PrimaryTest, ANameOpensTheObjectInAnyFileUntilTheLastHandleIsClosed) {
  const std::uint32_t handle = make_handle(master_);
  const std::uint32_t name = name_of(master_, handle);
  EXPECT_EQ(name_of(master_, handle), name);
  EXPECT_EQ(open_name(master_, name), 2) << "a further handle, even in the same file";
  EXPECT_EQ(open_name(second_, name), 1);
  EXPECT_EQ(name_of(second_, 1), name);
  EXPECT_EQ(close_handle(master_, 1), 0);
  EXPECT_EQ(close_handle(master_, 2), 0);
  EXPECT_EQ(open_name(second_, name), 2);
  EXPECT_EQ(close_handle(second_, 1), 0);
  EXPECT_EQ(close_handle(second_, 2), 0);
  EXPECT_EQ(open_name(second_, name), -ENOENT) << "although the object is still alive here";
  EXPECT_NE(last_object_, nullptr);
}

TEST_F(PrimaryTest, OpenTellsTheSize) {
  drm_gem_open args{name_of(master_, make_handle(master_, 3 * kPageBytes)), 0, 0};
  EXPECT_EQ(client_.ioctl<GemOpen>(second_, args), 0);
  EXPECT_EQ(args.size, 3 * kPageBytes);
}

TEST_F(PrimaryTest, UnknownNamesAndHandlesAreEnoent) {
  for (const std::uint32_t name : {0u, 999999u, ~0u}) EXPECT_EQ(open_name(master_, name), -ENOENT);
  for (const std::uint32_t handle : {0u, 99u, ~0u}) {
    drm_gem_flink args{handle, 0};
    EXPECT_EQ(client_.ioctl<GemFlink>(master_, args), -ENOENT);
  }
}

TEST_F(PrimaryTest, DumbBuffersAreMadeMappedAndDestroyed) {
  drm_mode_create_dumb create{};
  create.width = create.height = 64;
  create.bpp = 32;
  ASSERT_EQ(client_.ioctl<ModeCreateDumb>(master_, create), 0);
  EXPECT_EQ(create.handle, 1u);
  EXPECT_EQ(create.pitch, 256u);
  EXPECT_EQ(create.size, 0x4000u);
  drm_mode_map_dumb map{create.handle, 0, 0};
  ASSERT_EQ(client_.ioctl<ModeMapDumb>(master_, map), 0);
  void* address = client_.mmap(master_, create.size, PROT_READ | PROT_WRITE, map.offset);
  EXPECT_NE(address, MAP_FAILED);
  ::munmap(address, create.size);
  drm_mode_destroy_dumb destroy{create.handle};
  EXPECT_EQ(client_.ioctl<ModeDestroyDumb>(master_, destroy), 0);
  EXPECT_EQ(client_.ioctl<ModeDestroyDumb>(master_, destroy), -EINVAL);
  EXPECT_EQ(client_.ioctl<ModeMapDumb>(master_, map), -ENOENT);
}

TEST_F(PrimaryTest, DumbBuffersHaveASizeThatFitsInto32Bits) {
  const auto create = [&](std::uint32_t width, std::uint32_t height, std::uint32_t bpp) {
    drm_mode_create_dumb args{};
    args.width = width;
    args.height = height;
    args.bpp = bpp;
    return client_.ioctl<ModeCreateDumb>(master_, args);
  };
  EXPECT_EQ(create(0, 1, 32), -EINVAL);
  EXPECT_EQ(create(1, 0, 32), -EINVAL);
  EXPECT_EQ(create(1, 1, 0), -EINVAL);
  EXPECT_EQ(create(1, 1, ~0u), -EINVAL);
  EXPECT_EQ(create(~0u, ~0u, 32), -EINVAL);
  EXPECT_EQ(create(0x10000, 0x10000, 32), -EINVAL);
  EXPECT_EQ(create(3, 3, 24), 0);
}

}  // namespace
}  // namespace understudy::drm
