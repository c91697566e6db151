// Fences and sync_files. Expected values: recordings of vgem's fences on Linux 7.3.
#include <linux/sync_file.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "sim/drm/sync_file.h"
#include "tests/drm/plain_device.h"

namespace understudy::drm {
namespace {

class SyncFileTest : public DrmTest {
 protected:
  ~SyncFileTest() override {
    for (const int fd : fds_) ::close(fd);
  }
  int make(const FenceRef& fence) {
    const int fd = SyncFile::make_descriptor(machine_, fence).value().release();
    fds_.push_back(fd);
    return fd;
  }
  FileRef file_of(int fd) { return machine_.files().by_client_fd(*client_.caller().client, fd).value(); }
  static bool readable(int fd) {
    pollfd poll{fd, POLLIN, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  int info(int fd, sync_file_info& args) { return client_.ioctl(file_of(fd), SYNC_IOC_FILE_INFO, &args); }
  int merge(int fd, sync_merge_data& args) {
    const int result = client_.ioctl(file_of(fd), SYNC_IOC_MERGE, &args);
    if (result == 0) fds_.push_back(args.fence);
    return result;
  }
  static FenceRef fence(std::uint64_t context, std::uint64_t sequence) {
    return std::make_shared<Fence>("vgem", "unbound", context, sequence);
  }
  std::vector<int> fds_;
};

TEST_F(SyncFileTest, IsReadableOnceTheFenceHasSignalled) {
  const FenceRef pending = fence(11, 1);
  const int fd = make(pending);
  EXPECT_FALSE(readable(fd));
  pending->signal();
  EXPECT_TRUE(readable(fd));
  EXPECT_TRUE(readable(make(Fence::signalled())));
}

TEST_F(SyncFileTest, InfoNamesTheFenceUntilItHasSignalled) {
  const FenceRef pending = fence(11, 1);
  const int fd = make(pending);
  sync_fence_info part{};
  sync_file_info args{};
  args.num_fences = 1;
  args.sync_fence_info = reinterpret_cast<std::uint64_t>(&part);
  ASSERT_EQ(info(fd, args), 0);
  EXPECT_STREQ(args.name, "vgem-unbound11-1");
  EXPECT_EQ(args.status, 0);
  EXPECT_EQ(args.num_fences, 1u);
  EXPECT_STREQ(part.obj_name, "unbound");
  EXPECT_STREQ(part.driver_name, "vgem");
  EXPECT_EQ(part.status, 0);
  EXPECT_EQ(part.timestamp_ns, 0u);
  pending->signal();
  ASSERT_EQ(info(fd, args), 0);
  EXPECT_STREQ(args.name, "detached-driver-signaled-timeli");
  EXPECT_EQ(args.status, 1);
  EXPECT_STREQ(part.obj_name, "signaled-timeline");
  EXPECT_STREQ(part.driver_name, "detached-driver");
  EXPECT_EQ(part.status, 1);
  EXPECT_NE(part.timestamp_ns, 0u);
}

TEST_F(SyncFileTest, InfoShowsTheError) {
  const FenceRef failed = fence(11, 1);
  const int fd = make(failed);
  failed->signal(ECANCELED);
  sync_file_info args{};
  ASSERT_EQ(info(fd, args), 0);
  EXPECT_EQ(args.status, -ECANCELED);
}

TEST_F(SyncFileTest, InfoChecksItsArguments) {
  const int fd = make(Fence::merge({fence(1, 1), fence(2, 1)}));
  const auto result_of = [&](std::uint32_t flags, std::uint32_t pad, std::uint32_t count,
                             std::uint64_t infos) {
    sync_file_info args{};
    args.flags = flags;
    args.pad = pad;
    args.num_fences = count;
    args.sync_fence_info = infos;
    return info(fd, args);
  };
  sync_fence_info infos[5]{};
  const auto good = reinterpret_cast<std::uint64_t>(infos);
  EXPECT_EQ(result_of(1, 0, 0, 0), -EINVAL);
  EXPECT_EQ(result_of(0, 1, 0, 0), -EINVAL);
  EXPECT_EQ(result_of(0, 0, 1, good), -EINVAL) << "room for one of two";
  EXPECT_EQ(result_of(0, 0, 2, kBadPointer), -EFAULT);
  EXPECT_EQ(result_of(0, 0, 5, good), 0);
  EXPECT_EQ(client_.ioctl(file_of(fd), SYNC_IOC_FILE_INFO, reinterpret_cast<void*>(kBadPointer)), -EFAULT);
}

TEST_F(SyncFileTest, OtherIoctlsAreEnotty) {
  const FileRef file = file_of(make(Fence::signalled()));
  uapi::drm::drm_version version{};
  EXPECT_EQ(client_.ioctl<uapi::drm::Version>(file, version), -ENOTTY);
  EXPECT_EQ(client_.ioctl(file, _IOWR(SYNC_IOC_MAGIC, 1, sync_file_info), nullptr), -ENOTTY);
}

TEST_F(SyncFileTest, MergeWaitsForBothAndBearsTheGivenName) {
  const FenceRef first = fence(1, 1);
  const FenceRef second = fence(2, 1);
  const int a = make(first);
  const int b = make(second);
  sync_merge_data args{};
  std::strcpy(args.name, "both");
  args.fd2 = b;
  ASSERT_EQ(merge(a, args), 0);
  sync_file_info merged{};
  ASSERT_EQ(info(args.fence, merged), 0);
  EXPECT_STREQ(merged.name, "both");
  EXPECT_EQ(merged.num_fences, 2u);
  first->signal();
  EXPECT_FALSE(readable(args.fence));
  second->signal();
  EXPECT_TRUE(readable(args.fence));
  merged = {};
  ASSERT_EQ(info(args.fence, merged), 0);
  EXPECT_EQ(merged.status, 1);
  EXPECT_EQ(merged.num_fences, 2u);
}

TEST_F(SyncFileTest, MergingAFileWithItselfIsOneFence) {
  const FenceRef pending = fence(1, 1);
  const int fd = make(pending);
  sync_merge_data args{};
  std::strcpy(args.name, "self");
  args.fd2 = fd;
  ASSERT_EQ(merge(fd, args), 0);
  sync_file_info merged{};
  ASSERT_EQ(info(args.fence, merged), 0);
  EXPECT_STREQ(merged.name, "self");
  EXPECT_EQ(merged.num_fences, 1u);
  pending->signal();
}

TEST_F(SyncFileTest, MergeChecksItsArguments) {
  const int a = make(Fence::signalled());
  const int b = make(Fence::signalled());
  sync_merge_data args{};
  args.fd2 = -1;
  EXPECT_EQ(merge(a, args), -ENOENT);
  args.fd2 = STDIN_FILENO;
  EXPECT_EQ(merge(a, args), -ENOENT);
  args.fd2 = b;
  args.flags = 1;
  EXPECT_EQ(merge(a, args), -EINVAL);
  args.flags = 0;
  args.pad = 1;
  EXPECT_EQ(merge(a, args), -EINVAL);
  EXPECT_EQ(client_.ioctl(file_of(a), SYNC_IOC_MERGE, reinterpret_cast<void*>(kBadPointer)), -EFAULT);
}

TEST(FenceMerge, KeepsTheLastOfEachContext) {
  const auto early = std::make_shared<Fence>("driver", "ring", 7, 1);
  const auto late = std::make_shared<Fence>("driver", "ring", 7, 2);
  EXPECT_EQ(Fence::merge({early, late}), late);
  EXPECT_EQ(Fence::merge({late, early}), late);
  late->signal();
  EXPECT_EQ(Fence::merge({early, late}), early);
}

TEST(FenceMerge, MergedFencesAreTakenApart) {
  const auto a = std::make_shared<Fence>();
  const auto b = std::make_shared<Fence>();
  const auto c = std::make_shared<Fence>();
  const FenceRef merged = Fence::merge({Fence::merge({a, b}), Fence::merge({b, c})});
  EXPECT_EQ(merged->parts().size(), 3u);
  for (const FenceRef& part : merged->parts()) part->signal();
  EXPECT_TRUE(merged->is_signalled());
}

TEST(FenceMerge, TheFirstErrorWins) {
  const auto a = std::make_shared<Fence>();
  const auto b = std::make_shared<Fence>();
  const FenceRef merged = Fence::merge({a, b});
  b->signal(ECANCELED);
  a->signal(EIO);
  EXPECT_EQ(merged->error(), ECANCELED);
}

TEST(FenceMerge, OfNothingIsSignalled) {
  EXPECT_TRUE(Fence::merge({})->is_signalled());
}

}  // namespace
}  // namespace understudy::drm
