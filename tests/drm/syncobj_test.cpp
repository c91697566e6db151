// Syncobjs, binary and timelines. Expected values: recordings of amdgpu-less syncobj nodes on Linux 6.12
// and 7.3.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <vector>

#include "tests/drm/plain_device.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kAll = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL;
constexpr std::uint32_t kForSubmit = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
constexpr std::uint32_t kAvailable = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
constexpr std::uint32_t kDeadline = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE;
constexpr std::uint32_t kUntouched = 77;

class SyncobjTest : public DrmTest {
 protected:
  ~SyncobjTest() override {
    for (const int fd : fds_) ::close(fd);
  }
  int keep(int fd) {
    if (fd >= 0) fds_.push_back(fd);
    return fd;
  }

  using Handles = std::vector<std::uint32_t>;
  using Points = std::vector<std::uint64_t>;
  drm_syncobj_array array_of(const Handles& handles) {
    return {reinterpret_cast<std::uint64_t>(handles.data()), static_cast<std::uint32_t>(handles.size()), 0};
  }
  int signal(const Handles& handles) {
    drm_syncobj_array args = array_of(handles);
    return client_.ioctl<uapi::drm::SyncobjSignal>(file_, args);
  }
  int reset(const Handles& handles) {
    drm_syncobj_array args = array_of(handles);
    return client_.ioctl<uapi::drm::SyncobjReset>(file_, args);
  }
  int wait(const Handles& handles, std::uint32_t flags = 0, std::int64_t timeout_ns = 0) {
    return start_wait(handles, flags, timeout_ns)->wait();
  }
  // The wait's struct is wait_args_, which outlives the call.
  std::shared_ptr<test::TestCall> start_wait(const Handles& handles, std::uint32_t flags,
                                             std::int64_t timeout_ns) {
    waited_handles_ = handles;
    wait_args_ = {};
    wait_args_.handles = reinterpret_cast<std::uint64_t>(waited_handles_.data());
    wait_args_.count_handles = static_cast<std::uint32_t>(handles.size());
    wait_args_.flags = flags;
    wait_args_.timeout_nsec = timeout_ns;
    wait_args_.first_signaled = kUntouched;
    return client_.start(file_, uapi::drm::SyncobjWait::kCmd, reinterpret_cast<std::uint64_t>(&wait_args_));
  }
  std::shared_ptr<test::TestCall> start_timeline_wait(const Handles& handles, const Points& points,
                                                      std::uint32_t flags, std::int64_t timeout_ns) {
    waited_handles_ = handles;
    waited_points_ = points;
    timeline_wait_args_ = {};
    timeline_wait_args_.handles = reinterpret_cast<std::uint64_t>(waited_handles_.data());
    timeline_wait_args_.points = reinterpret_cast<std::uint64_t>(waited_points_.data());
    timeline_wait_args_.count_handles = static_cast<std::uint32_t>(handles.size());
    timeline_wait_args_.flags = flags;
    timeline_wait_args_.timeout_nsec = timeout_ns;
    timeline_wait_args_.first_signaled = kUntouched;
    return client_.start(file_, uapi::drm::SyncobjTimelineWait::kCmd,
                         reinterpret_cast<std::uint64_t>(&timeline_wait_args_));
  }
  int timeline_wait(const Handles& handles, const Points& points, std::uint32_t flags = 0,
                    std::int64_t timeout_ns = 0) {
    return start_timeline_wait(handles, points, flags, timeout_ns)->wait();
  }
  int timeline_signal(const Handles& handles, const Points& points) {
    drm_syncobj_timeline_array args{reinterpret_cast<std::uint64_t>(handles.data()),
                                    reinterpret_cast<std::uint64_t>(points.data()),
                                    static_cast<std::uint32_t>(handles.size()), 0};
    return client_.ioctl<uapi::drm::SyncobjTimelineSignal>(file_, args);
  }
  std::uint64_t query(std::uint32_t handle, std::uint32_t flags = 0) {
    std::uint64_t point = kUntouched;
    drm_syncobj_timeline_array args{reinterpret_cast<std::uint64_t>(&handle),
                                    reinterpret_cast<std::uint64_t>(&point), 1, flags};
    EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjQuery>(file_, args), 0);
    return point;
  }
  int transfer(std::uint32_t from, std::uint64_t from_point, std::uint32_t to, std::uint64_t to_point,
               std::uint32_t flags = 0) {
    drm_syncobj_transfer args{from, to, from_point, to_point, flags, 0};
    return client_.ioctl<uapi::drm::SyncobjTransfer>(file_, args);
  }
  int to_fd(std::uint32_t handle, std::uint32_t flags = 0, std::uint64_t point = 0) {
    drm_syncobj_handle args{handle, flags, -1, 0, point};
    const int result = client_.ioctl<uapi::drm::SyncobjHandleToFd>(file_, args);
    return result < 0 ? result : keep(args.fd);
  }
  int from_fd(int fd, std::uint32_t flags = 0, std::uint32_t handle = 0, std::uint64_t point = 0) {
    drm_syncobj_handle args{handle, flags, fd, 0, point};
    const int result = client_.ioctl<uapi::drm::SyncobjFdToHandle>(file_, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }

  Handles waited_handles_;
  Points waited_points_;
  drm_syncobj_wait wait_args_{};
  drm_syncobj_timeline_wait timeline_wait_args_{};
  std::vector<int> fds_;
};

TEST_F(SyncobjTest, HandlesAreTheLowestFreeNumbersFromOne) {
  EXPECT_EQ(make_syncobj(), 1u);
  EXPECT_EQ(make_syncobj(), 2u);
  drm_syncobj_destroy destroy{1, 0};
  EXPECT_EQ(client_.ioctl<SyncobjDestroy>(file_, destroy), 0);
  EXPECT_EQ(client_.ioctl<SyncobjDestroy>(file_, destroy), -EINVAL);
  EXPECT_EQ(make_syncobj(), 1u);
  EXPECT_EQ(make_syncobj(), 3u);
}

TEST_F(SyncobjTest, CreateAndDestroyCheckTheirArguments) {
  for (const std::uint32_t flags : {2u, 3u, 0x80000000u, ~0u}) {
    drm_syncobj_create create{0, flags};
    EXPECT_EQ(client_.ioctl<SyncobjCreate>(file_, create), -EINVAL) << flags;
  }
  drm_syncobj_destroy destroy{make_syncobj(), 1};
  EXPECT_EQ(client_.ioctl<SyncobjDestroy>(file_, destroy), -EINVAL);
  for (const std::uint32_t handle : {0u, 99u, ~0u}) {
    destroy = {handle, 0};
    EXPECT_EQ(client_.ioctl<SyncobjDestroy>(file_, destroy), -EINVAL);
  }
}

TEST_F(SyncobjTest, SignalAndReset) {
  const std::uint32_t handle = make_syncobj();
  EXPECT_EQ(wait({handle}), -EINVAL) << "nothing submitted";
  EXPECT_EQ(signal({handle}), 0);
  EXPECT_EQ(wait({handle}), 0);
  EXPECT_EQ(wait_args_.first_signaled, 0u);
  EXPECT_EQ(wait({handle}, kAll), 0);
  EXPECT_EQ(reset({handle}), 0);
  EXPECT_EQ(wait({handle}), -EINVAL);
  EXPECT_EQ(wait({handle}, kForSubmit), -ETIME);
  EXPECT_EQ(wait_args_.first_signaled, kUntouched);
}

TEST_F(SyncobjTest, ArraysAreCheckedBeforeAnythingChanges) {
  const std::uint32_t handle = make_syncobj();
  for (const std::uint32_t command : {uapi::drm::SyncobjSignal::kCmd, uapi::drm::SyncobjReset::kCmd}) {
    const auto call = [&](std::uint64_t handles, std::uint32_t count, std::uint32_t pad = 0) {
      drm_syncobj_array args{handles, count, pad};
      return client_.ioctl(file_, command, &args);
    };
    const auto good = reinterpret_cast<std::uint64_t>(&handle);
    const std::uint32_t second_unknown[] = {handle, 99};
    const std::uint32_t twice[] = {handle, handle};
    EXPECT_EQ(call(good, 0), -EINVAL);
    EXPECT_EQ(call(kBadPointer, 0), -EINVAL);
    EXPECT_EQ(call(good, 1, 1), -EINVAL);
    EXPECT_EQ(call(kBadPointer, 1), -EFAULT);
    EXPECT_EQ(call(0, 1), -EFAULT);
    EXPECT_EQ(call(reinterpret_cast<std::uint64_t>(second_unknown), 2), -ENOENT);
    EXPECT_EQ(call(reinterpret_cast<std::uint64_t>(twice), 2), 0);
    EXPECT_EQ(call(good, 0x40000000), -ENOMEM);
    EXPECT_EQ(call(good, ~0u), -ENOMEM);
  }
  EXPECT_EQ(signal({handle, 99}), -ENOENT);
  EXPECT_EQ(wait({handle}), -EINVAL) << "the first was not signalled";
  EXPECT_EQ(signal({handle}), 0);
  EXPECT_EQ(reset({handle, 99}), -ENOENT);
  EXPECT_EQ(wait({handle}), 0) << "the first was not reset";
}

TEST_F(SyncobjTest, WaitChecksItsArguments) {
  const std::uint32_t ready = make_syncobj(DRM_SYNCOBJ_CREATE_SIGNALED);
  const std::uint32_t empty = make_syncobj();
  EXPECT_EQ(wait({}), 0);
  EXPECT_EQ(wait({}, ~0u), -EINVAL);
  for (const std::uint32_t flags : {kAvailable, 16u, 0x80000000u}) EXPECT_EQ(wait({ready}, flags), -EINVAL);
  EXPECT_EQ(wait({ready}, kDeadline), 0);
  EXPECT_EQ(wait({99}), -ENOENT);
  EXPECT_EQ(wait({ready, 99}), -ENOENT);
  EXPECT_EQ(wait({empty, ready}), -EINVAL);
  EXPECT_EQ(wait({ready, empty}, kAll), -EINVAL);
  EXPECT_EQ(wait({ready, ready}, kAll), 0);
  drm_syncobj_wait args{};
  args.count_handles = 1;
  args.handles = kBadPointer;
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjWait>(file_, args), -EFAULT);
  args.count_handles = 0x10000000;
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjWait>(file_, args), -ENOMEM);
}

TEST_F(SyncobjTest, WaitSaysWhichWasFirst) {
  const std::uint32_t ready = make_syncobj(DRM_SYNCOBJ_CREATE_SIGNALED);
  const std::uint32_t empty = make_syncobj();
  EXPECT_EQ(wait({empty, ready}, kForSubmit), 0);
  EXPECT_EQ(wait_args_.first_signaled, 1u);
  EXPECT_EQ(wait({ready, empty}, kForSubmit), 0);
  EXPECT_EQ(wait_args_.first_signaled, 0u);
  EXPECT_EQ(wait({empty, ready}, kForSubmit | kAll), -ETIME);
  EXPECT_EQ(wait_args_.first_signaled, kUntouched);
}

TEST_F(SyncobjTest, APastOrNegativeTimeoutLooksOnce) {
  const std::uint32_t empty = make_syncobj();
  for (const std::int64_t timeout :
       {std::int64_t{-1}, std::int64_t{1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(wait({empty}, kForSubmit, timeout), -ETIME);
  }
  EXPECT_EQ(wait({make_syncobj(DRM_SYNCOBJ_CREATE_SIGNALED)}, 0, kForEver), 0);
}

TEST_F(SyncobjTest, AWaitEndsWithTheSignal) {
  const std::uint32_t a = make_syncobj();
  const std::uint32_t b = make_syncobj();
  auto call = start_wait({b, a}, kForSubmit, kForEver);
  EXPECT_FALSE(call->answered());
  EXPECT_EQ(signal({a}), 0);
  EXPECT_EQ(call->wait(), 0);
  EXPECT_EQ(wait_args_.first_signaled, 1u);
  call = start_wait({b, a}, kForSubmit | kAll, kForEver);
  EXPECT_FALSE(call->answered());
  EXPECT_EQ(signal({b}), 0);
  EXPECT_EQ(call->wait(), 0);
  EXPECT_EQ(wait_args_.first_signaled, 1u) << "the one that was there first";
}

TEST_F(SyncobjTest, AWaitEndsWithTheFenceOfASubmission) {
  const std::uint32_t handle = make_syncobj();
  const auto fence = std::make_shared<Fence>();
  syncobj(handle)->replace(fence);
  auto call = start_wait({handle}, 0, kForEver);
  EXPECT_FALSE(call->answered());
  EXPECT_EQ(reset({handle}), 0);
  EXPECT_FALSE(call->answered()) << "it waits for the fence, not the syncobj";
  fence->signal();
  EXPECT_EQ(call->wait(), 0);
}

TEST_F(SyncobjTest, AWaitEndsAtItsDeadline) {
  const std::uint32_t handle = make_syncobj();
  auto call = start_wait({handle}, kForSubmit, static_cast<std::int64_t>(clock_->now_ns()) + 1000);
  EXPECT_FALSE(call->answered());
  clock_->advance(999);
  EXPECT_FALSE(call->answered());
  clock_->advance(1);
  EXPECT_EQ(call->wait(), -ETIME);
}

TEST_F(SyncobjTest, ASignalInterruptsAWaitAndNothingIsLeftBehind) {
  const std::uint32_t handle = make_syncobj();
  auto call = start_wait({handle}, kForSubmit, kForEver);
  call->cancel();
  EXPECT_EQ(call->wait(), -EINTR);
  EXPECT_EQ(call.use_count(), 1) << "no callback holds the call";
}

TEST_F(SyncobjTest, ADestroyedSyncobjStaysAliveForItsWaiters) {
  const std::uint32_t handle = make_syncobj();
  const int fd = to_fd(handle);
  auto call = start_wait({handle}, kForSubmit, kForEver);
  drm_syncobj_destroy destroy{handle, 0};
  EXPECT_EQ(client_.ioctl<SyncobjDestroy>(file_, destroy), 0);
  EXPECT_FALSE(call->answered());
  const int again = from_fd(fd);
  ASSERT_GT(again, 0);
  EXPECT_EQ(signal({static_cast<std::uint32_t>(again)}), 0);
  EXPECT_EQ(call->wait(), 0);
}

TEST_F(SyncobjTest, ADescriptorGivesFurtherHandlesOfTheSameSyncobj) {
  const std::uint32_t handle = make_syncobj();
  const int fd = to_fd(handle);
  EXPECT_EQ(from_fd(fd), 2);
  EXPECT_EQ(syncobj(2), syncobj(handle));
  const FileRef other = client_.open("dri/renderD129");
  drm_syncobj_handle args{0, 0, fd, 0, 0};
  EXPECT_EQ(client_.ioctl<SyncobjFdToHandle>(other, args), 0);
  EXPECT_EQ(args.handle, 1u);
  EXPECT_EQ(drm(other).syncobjs().find(1), syncobj(handle)) << "also in a file of another device";
}

TEST_F(SyncobjTest, ExportAndImportCheckTheirArguments) {
  constexpr std::uint32_t kSyncFile = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE;
  constexpr std::uint32_t kTimeline = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_TIMELINE;
  const std::uint32_t handle = make_syncobj();
  drm_syncobj_handle padded{handle, 0, -1, 1, 0};
  EXPECT_EQ(client_.ioctl<SyncobjHandleToFd>(file_, padded), -EINVAL);
  EXPECT_EQ(client_.ioctl<SyncobjFdToHandle>(file_, padded), -EINVAL);
  for (const std::uint32_t flags : {4u, 0x80000000u, ~0u}) {
    EXPECT_EQ(to_fd(handle, flags), -EINVAL);
    EXPECT_EQ(from_fd(-1, flags), -EINVAL);
  }
  EXPECT_GT(to_fd(handle, kTimeline), 0) << "means nothing without a sync_file";
  EXPECT_EQ(to_fd(handle, kTimeline, 1), -EINVAL);
  EXPECT_EQ(to_fd(handle, kSyncFile), -EINVAL) << "nothing submitted";
  EXPECT_EQ(to_fd(99), -EINVAL);
  EXPECT_EQ(to_fd(99, kSyncFile), -ENOENT);
  const int memfd = keep(::memfd_create("plain", 0));
  for (const int fd : {-1, 999, memfd}) {
    EXPECT_EQ(from_fd(fd), -EINVAL);
    EXPECT_EQ(from_fd(fd, DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, handle), -EINVAL);
  }
}

TEST_F(SyncobjTest, AnOldCallerHasNoPoint) {
  const std::uint32_t handle = make_syncobj();
  drm_syncobj_handle args{handle, 0, -1, 0, ~0ull};
  constexpr std::uint32_t kOldCommand = (uapi::drm::SyncobjHandleToFd::kCmd & ~(0x3fffu << 16)) | 16u << 16;
  EXPECT_EQ(client_.ioctl(file_, kOldCommand, &args), 0);
  keep(args.fd);
}

TEST_F(SyncobjTest, SyncFilesCarryTheFence) {
  const std::uint32_t source = make_syncobj();
  const std::uint32_t sink = make_syncobj();
  const auto fence = std::make_shared<Fence>();
  syncobj(source)->replace(fence);
  const int fd = to_fd(source, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE);
  ASSERT_GT(fd, 0);
  EXPECT_EQ(from_fd(fd, DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, sink), static_cast<int>(sink));
  EXPECT_EQ(from_fd(fd, DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, 99), -ENOENT);
  EXPECT_EQ(from_fd(fd), -EINVAL) << "no syncobj descriptor";
  EXPECT_EQ(reset({source}), 0);
  EXPECT_EQ(wait({sink}), -ETIME);
  fence->signal();
  EXPECT_EQ(wait({sink}), 0);
}

TEST_F(SyncobjTest, SignalledPointsCanBeAskedFor) {
  const std::uint32_t handle = make_syncobj();
  EXPECT_EQ(query(handle), 0u);
  for (const std::uint64_t point : {1, 2, 10}) {
    EXPECT_EQ(timeline_signal({handle}, {point}), 0);
    EXPECT_EQ(query(handle), point);
    EXPECT_EQ(query(handle, DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED), point);
  }
  EXPECT_EQ(timeline_signal({handle}, {5}), 0) << "does not go back";
  EXPECT_EQ(query(handle), 10u);
  EXPECT_EQ(timeline_signal({handle}, {0}), 0);
  EXPECT_EQ(query(handle), 10u);
  EXPECT_EQ(signal({handle}), 0);
  EXPECT_EQ(query(handle), 0u) << "a binary fence is no timeline";
}

TEST_F(SyncobjTest, APointIsDoneWhenAllBeforeItAre) {
  const std::uint32_t handle = make_syncobj();
  const auto first = std::make_shared<Fence>();
  const auto second = std::make_shared<Fence>();
  syncobj(handle)->add_point(first, 1);
  syncobj(handle)->add_point(second, 2);
  second->signal();
  EXPECT_EQ(timeline_wait({handle}, {2}), -ETIME);
  EXPECT_EQ(query(handle), 0u);
  EXPECT_EQ(query(handle, DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED), 2u);
  first->signal();
  EXPECT_EQ(timeline_wait({handle}, {2}), 0);
  EXPECT_EQ(query(handle), 2u);
}

TEST_F(SyncobjTest, APointThatGoesBackHoldsUpThoseBeforeIt) {
  const std::uint32_t handle = make_syncobj();
  EXPECT_EQ(timeline_signal({handle}, {10}), 0);
  const auto fence = std::make_shared<Fence>();
  syncobj(handle)->add_point(fence, 5);
  EXPECT_EQ(query(handle), 0u);
  EXPECT_EQ(timeline_wait({handle}, {10}), -ETIME);
  fence->signal();
  EXPECT_EQ(query(handle), 10u);
  EXPECT_EQ(timeline_wait({handle}, {10}), 0);
}

TEST_F(SyncobjTest, ABinaryFenceComesBeforeTheFirstPoint) {
  const std::uint32_t handle = make_syncobj();
  const auto binary = std::make_shared<Fence>();
  syncobj(handle)->replace(binary);
  EXPECT_EQ(timeline_wait({handle}, {1}), -EINVAL);
  EXPECT_EQ(timeline_signal({handle}, {1}), 0);
  EXPECT_EQ(timeline_wait({handle}, {1}), -ETIME);
  binary->signal();
  EXPECT_EQ(timeline_wait({handle}, {1}), 0);
}

TEST_F(SyncobjTest, ManyPointsCanBeOutstanding) {
  constexpr std::uint64_t kPoints = 100'000;
  const std::uint32_t handle = make_syncobj();
  const auto first = std::make_shared<Fence>();
  syncobj(handle)->add_point(first, 1);
  for (std::uint64_t point = 2; point <= kPoints; ++point)
    syncobj(handle)->add_point(Fence::signalled(), point);
  EXPECT_EQ(query(handle), 0u);
  first->signal();
  EXPECT_EQ(query(handle), kPoints);
}

TEST_F(SyncobjTest, TimelineArraysAreChecked) {
  const std::uint32_t handle = make_syncobj();
  const auto handles = reinterpret_cast<std::uint64_t>(&handle);
  std::uint64_t point = 1;
  const auto points = reinterpret_cast<std::uint64_t>(&point);
  const auto call = [&](std::uint32_t command, drm_syncobj_timeline_array args) {
    return client_.ioctl(file_, command, &args);
  };
  for (const std::uint32_t command :
       {uapi::drm::SyncobjTimelineSignal::kCmd, uapi::drm::SyncobjQuery::kCmd}) {
    EXPECT_EQ(call(command, {handles, points, 0, 0}), -EINVAL);
    EXPECT_EQ(call(command, {kBadPointer, points, 1, 0}), -EFAULT);
    EXPECT_EQ(call(command, {handles, kBadPointer, 1, 0}), -EFAULT);
    EXPECT_EQ(call(command, {handles, points, 1, 2}), -EINVAL);
    EXPECT_EQ(call(command, {handles, points, 1, ~0u}), -EINVAL);
    EXPECT_EQ(call(command, {handles, points, 0x40000000, 0}), -ENOMEM);
  }
  EXPECT_EQ(call(uapi::drm::SyncobjTimelineSignal::kCmd, {handles, points, 1, 1}), -EINVAL);
  EXPECT_EQ(call(uapi::drm::SyncobjTimelineSignal::kCmd, {handles, 0, 1, 0}), 0) << "no points: zero";
  EXPECT_EQ(call(uapi::drm::SyncobjQuery::kCmd, {handles, 0, 1, 0}), -EFAULT);
  EXPECT_EQ(timeline_signal({99}, {1}), -ENOENT);
  EXPECT_EQ(timeline_signal({handle, handle}, {7, 8}), 0);
  EXPECT_EQ(query(handle), 8u);
}

TEST_F(SyncobjTest, WaitsForPoints) {
  const std::uint32_t handle = make_syncobj();
  EXPECT_EQ(timeline_signal({handle}, {5}), 0);
  for (const std::uint32_t flags : {0u, kAll, kForSubmit, kAvailable, kAvailable | kForSubmit, kDeadline}) {
    for (const std::uint64_t point : {0, 1, 5})
      EXPECT_EQ(timeline_wait({handle}, {point}, flags), 0) << flags;
    const int beyond = flags & (kForSubmit | kAvailable) ? -ETIME : -EINVAL;
    EXPECT_EQ(timeline_wait({handle}, {6}, flags), beyond) << flags;
  }
  EXPECT_EQ(timeline_wait({handle}, {5}, 16), -EINVAL);
  EXPECT_EQ(timeline_wait({99}, {5}), -ENOENT);
}

TEST_F(SyncobjTest, AnAvailablePointNeedNotBeDone) {
  const std::uint32_t handle = make_syncobj();
  auto call = start_timeline_wait({handle}, {3}, kAvailable, kForEver);
  const auto fence = std::make_shared<Fence>();
  syncobj(handle)->add_point(fence, 2);
  EXPECT_FALSE(call->answered());
  syncobj(handle)->add_point(fence, 3);
  EXPECT_EQ(call->wait(), 0);
  fence->signal();
}

TEST_F(SyncobjTest, TransferCopiesFencesBetweenPoints) {
  const std::uint32_t a = make_syncobj(DRM_SYNCOBJ_CREATE_SIGNALED);
  const std::uint32_t b = make_syncobj();
  const std::uint32_t c = make_syncobj();
  EXPECT_EQ(transfer(a, 0, b, 0), 0);
  EXPECT_EQ(wait({b}), 0);
  EXPECT_EQ(transfer(a, 0, c, 4), 0);
  EXPECT_EQ(query(c), 4u);
  EXPECT_EQ(transfer(c, 5, b, 0), -EINVAL);
  EXPECT_EQ(transfer(c, 3, b, 9), 0);
  EXPECT_EQ(query(b), 9u);
  EXPECT_EQ(transfer(99, 0, b, 0), -ENOENT);
  EXPECT_EQ(transfer(a, 0, 99, 0), -ENOENT);
  for (const std::uint32_t flags : {1u, 4u, ~0u}) EXPECT_EQ(transfer(a, 0, b, 0, flags), -EINVAL);
  drm_syncobj_transfer padded{a, b, 0, 0, 0, 1};
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjTransfer>(file_, padded), -EINVAL);
}

TEST_F(SyncobjTest, TransferMayWaitFiveSecondsForTheSubmission) {
  const std::uint32_t from = make_syncobj();
  const std::uint32_t to = make_syncobj();
  EXPECT_EQ(transfer(from, 0, to, 0), -EINVAL);
  drm_syncobj_transfer args{from, to, 0, 0, kForSubmit, 0};
  const auto argument = reinterpret_cast<std::uint64_t>(&args);
  auto call = client_.start(file_, uapi::drm::SyncobjTransfer::kCmd, argument);
  EXPECT_FALSE(call->answered());
  EXPECT_EQ(signal({from}), 0);
  EXPECT_EQ(call->wait(), 0);
  EXPECT_EQ(wait({to}), 0);

  EXPECT_EQ(reset({from}), 0);
  call = client_.start(file_, uapi::drm::SyncobjTransfer::kCmd, argument);
  clock_->advance(4'999'999'999);
  EXPECT_FALSE(call->answered());
  clock_->advance(1);
  EXPECT_EQ(call->wait(), -ETIME);
}

TEST_F(SyncobjTest, EventfdChecksItsArguments) {
  const std::uint32_t handle = make_syncobj();
  const int memfd = keep(::memfd_create("plain", 0));
  const auto call = [&](drm_syncobj_eventfd args) {
    return client_.ioctl<uapi::drm::SyncobjEventfd>(file_, args);
  };
  EXPECT_EQ(call({handle, 0, 0, -1, 0}), -EBADF);
  EXPECT_EQ(call({handle, 0, 0, memfd, 0}), -EINVAL);
  EXPECT_EQ(call({99, 0, 0, memfd, 0}), -ENOENT);
  EXPECT_EQ(call({handle, 0, 0, memfd, 1}), -EINVAL);
  for (const std::uint32_t flags : {kAll, kForSubmit, kDeadline, ~0u}) {
    EXPECT_EQ(call({handle, flags, 0, -1, 0}), -EINVAL);
  }
}

TEST_F(SyncobjTest, AnEventfdIsSignalledWithThePoint) {
  const std::uint32_t handle = make_syncobj();
  const int signalled = keep(::eventfd(0, EFD_NONBLOCK));
  const int available = keep(::eventfd(0, EFD_NONBLOCK));
  drm_syncobj_eventfd args{handle, 0, 2, signalled, 0};
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjEventfd>(file_, args), 0);
  args = {handle, kAvailable, 2, available, 0};
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjEventfd>(file_, args), 0);
  eventfd_t value = 0;
  EXPECT_EQ(::eventfd_read(available, &value), -1);
  const auto fence = std::make_shared<Fence>();
  syncobj(handle)->add_point(fence, 2);
  EXPECT_EQ(::eventfd_read(available, &value), 0);
  EXPECT_EQ(::eventfd_read(signalled, &value), -1);
  fence->signal();
  EXPECT_EQ(::eventfd_read(signalled, &value), 0);
  EXPECT_EQ(value, 1u);
}

TEST_F(SyncobjTest, ReleaseDestroysTheSyncobjs) {
  make_syncobj();
  const std::weak_ptr<Syncobj> watched = syncobj(1);
  client_.close(file_);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(machine_.ledger().live_count(ObjectKind::kSyncobj), 0u);
}

}  // namespace
}  // namespace understudy::drm
