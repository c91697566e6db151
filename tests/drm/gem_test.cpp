// GEM handles, fake offsets and PRIME. Expected values: facts/kfd.md D.3, D.4 and recordings of vgem.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/drm/plain_device.h"
#include "tests/support/child_process.h"

namespace understudy::drm {
namespace {

using namespace uapi::drm;

class GemTest : public DrmTest {
 protected:
  ~GemTest() override {
    for (const int fd : fds_) ::close(fd);
  }
  int keep(int fd) {
    if (fd >= 0) fds_.push_back(fd);
    return fd;
  }
  void drop(int fd) {
    ::close(fd);
    std::erase(fds_, fd);
  }
  void* map(const FileRef& file, std::uint64_t length, std::uint64_t offset) {
    return client_.mmap(file, length, PROT_READ | PROT_WRITE, offset);
  }
  std::vector<int> fds_;
};

TEST_F(GemTest, HandlesAreTheLowestFreeNumbersFromOne) {
  EXPECT_EQ(make_handle(file_), 1u);
  EXPECT_EQ(make_handle(file_), 2u);
  EXPECT_EQ(make_handle(file_), 3u);
  EXPECT_EQ(close_handle(file_, 2), 0);
  EXPECT_EQ(make_handle(file_), 2u);
  EXPECT_EQ(close_handle(file_, 1), 0);
  EXPECT_EQ(close_handle(file_, 3), 0);
  EXPECT_EQ(make_handle(file_), 1u);
  EXPECT_EQ(make_handle(file_), 3u);
  EXPECT_EQ(make_handle(file_), 4u);
}

TEST_F(GemTest, ClosingTwiceIsEinvalAndTheLedgerNamesBothCalls) {
  const std::uint32_t handle = make_handle(file_);
  EXPECT_EQ(close_handle(file_, handle), 0);
  EXPECT_TRUE(machine_.ledger().findings().empty());
  EXPECT_EQ(close_handle(file_, handle), -EINVAL);
  const auto findings = machine_.ledger().findings();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::kDoubleDestroy);
  EXPECT_EQ(findings[0].text, "GEM handle 1 closed twice on dri/renderD128");
  EXPECT_EQ(findings[0].made.pid, ::getpid());
  EXPECT_EQ(findings[0].first.call, "DRM_IOCTL_GEM_CLOSE");
  EXPECT_EQ(findings[0].actor.call, "DRM_IOCTL_GEM_CLOSE");
  EXPECT_EQ(findings[0].actor.pid, ::getpid());
}

TEST_F(GemTest, ClosingWhatNeverWasIsEinvalAndNoFinding) {
  for (const std::uint32_t handle : {0u, 1u, 1000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    EXPECT_EQ(close_handle(file_, handle), -EINVAL) << handle;
  }
  EXPECT_TRUE(machine_.ledger().findings().empty());
}

TEST_F(GemTest, PaddingOfCloseIsIgnored) {
  drm_gem_close args{make_handle(file_), 0xffffffff};
  EXPECT_EQ(client_.ioctl<GemClose>(file_, args), 0);
}

TEST_F(GemTest, HandlesBelongToOneFile) {
  const FileRef other = client_.open("dri/renderD128");
  EXPECT_EQ(make_handle(file_), 1u);
  EXPECT_EQ(close_handle(other, 1), -EINVAL);
  EXPECT_EQ(make_handle(other), 1u);
  EXPECT_EQ(export_handle(other, 2), -ENOENT);
}

TEST_F(GemTest, ReleaseClosesEveryHandle) {
  make_handle(file_);
  make_handle(file_);
  EXPECT_EQ(device_->open_handles, 2);
  client_.close(file_);
  EXPECT_EQ(device_->open_handles, 0);
  last_object_.reset();
  EXPECT_EQ(machine_.ledger().live_count(ObjectKind::kGemHandle), 0u);
}

TEST_F(GemTest, ChangeHandleMovesTheObject) {
  const std::uint32_t handle = make_handle(file_);
  const std::uint32_t taken = make_handle(file_);
  const auto change = [&](std::uint32_t from, std::uint32_t to) {
    drm_gem_change_handle args{from, to};
    return client_.ioctl<GemChangeHandle>(file_, args);
  };
  const int fd = keep(export_handle(file_, handle));
  EXPECT_EQ(change(kNoSuchHandle, 9), -ENOENT);
  EXPECT_EQ(change(handle, taken), -ENOSPC);
  EXPECT_EQ(change(handle, handle), 0);
  EXPECT_EQ(change(handle, 9), 0);
  EXPECT_EQ(close_handle(file_, handle), -EINVAL);
  EXPECT_EQ(import_fd(file_, fd), 9) << "the import cache follows";
  EXPECT_EQ(make_handle(file_), handle) << "the old number is free again";
  EXPECT_EQ(close_handle(file_, 9), 0);
}

TEST_F(GemTest, OffsetsBeginAtFourGigapagesAndAreDistinct) {
  make_handle(file_, 2 * kPageBytes);
  const std::uint64_t first = last_object_->mmap_offset_bytes();
  EXPECT_EQ(first, std::uint64_t{0x100000} * kPageBytes);
  EXPECT_EQ(last_object_->mmap_offset_bytes(), first);
  make_handle(file_);
  EXPECT_EQ(last_object_->mmap_offset_bytes(), first + 2 * kPageBytes);
}

TEST_F(GemTest, MmapKnowsExactStartsOnly) {
  make_handle(file_, 2 * kPageBytes);
  const std::uint64_t offset = last_object_->mmap_offset_bytes();
  void* whole = map(file_, 2 * kPageBytes, offset);
  ASSERT_NE(whole, MAP_FAILED);
  void* part = map(file_, kPageBytes, offset);
  ASSERT_NE(part, MAP_FAILED) << "shorter is fine";
  std::memset(whole, 0x5a, 2 * kPageBytes);
  EXPECT_EQ(static_cast<std::uint8_t*>(part)[100], 0x5a) << "the same pages";
  EXPECT_EQ(map(file_, kPageBytes, offset + kPageBytes), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(map(file_, 3 * kPageBytes, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(map(file_, kPageBytes, 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  ::munmap(whole, 2 * kPageBytes);
  ::munmap(part, kPageBytes);
}

TEST_F(GemTest, MmapWithoutAHandleInThisFileIsEacces) {
  make_handle(file_);
  const std::uint64_t offset = last_object_->mmap_offset_bytes();
  const FileRef other = client_.open("dri/renderD128");
  EXPECT_EQ(map(other, kPageBytes, offset), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(map(other, 2 * kPageBytes, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL) << "the range is looked at first";
  EXPECT_EQ(import_fd(other, keep(export_handle(file_, 1))), 1);
  void* address = map(other, kPageBytes, offset);
  EXPECT_NE(address, MAP_FAILED);
  ::munmap(address, kPageBytes);
  EXPECT_EQ(close_handle(other, 1), 0);
  EXPECT_EQ(map(other, kPageBytes, offset), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(GemTest, ExportChecksFlagsBeforeTheHandle) {
  for (const std::uint32_t flags : {1u, 4u, unsigned{O_NONBLOCK}, unsigned{O_APPEND}, 0x80000000u, ~0u}) {
    EXPECT_EQ(export_handle(file_, kNoSuchHandle, flags), -EINVAL) << flags;
  }
  EXPECT_EQ(export_handle(file_, kNoSuchHandle), -ENOENT);
  EXPECT_EQ(export_handle(file_, 0), -ENOENT);
}

TEST_F(GemTest, TheDriverMayRefuseTheExport) {
  const std::uint32_t handle = make_handle(file_);
  last_object_->exportable = false;
  EXPECT_EQ(export_handle(file_, handle), -EPERM);
}

TEST_F(GemTest, TheFirstExportDecidesTheAccessMode) {
  const std::uint32_t read_only = make_handle(file_);
  EXPECT_EQ(::fcntl(keep(export_handle(file_, read_only, 0)), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(::fcntl(keep(export_handle(file_, read_only, O_RDWR)), F_GETFL) & O_ACCMODE, O_RDONLY);
  const std::uint32_t writable = make_handle(file_);
  EXPECT_EQ(::fcntl(keep(export_handle(file_, writable, O_RDWR)), F_GETFL) & O_ACCMODE, O_RDWR);
  EXPECT_EQ(::fcntl(keep(export_handle(file_, writable, 0)), F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST_F(GemTest, TwoExportsAreOneDmaBuf) {
  const std::uint32_t handle = make_handle(file_);
  const int first = keep(export_handle(file_, handle));
  const int second = keep(export_handle(file_, handle));
  const FileRef other = client_.open("dri/renderD128");
  EXPECT_EQ(import_fd(other, first), 1);
  EXPECT_EQ(import_fd(other, second), 1);
}

TEST_F(GemTest, ImportIntoTheExportingFileGivesTheHandleBackWithoutAReference) {
  const std::uint32_t handle = make_handle(file_);
  const int fd = keep(export_handle(file_, handle));
  EXPECT_EQ(import_fd(file_, fd), static_cast<int>(handle));
  EXPECT_EQ(import_fd(file_, fd), static_cast<int>(handle));
  EXPECT_EQ(close_handle(file_, handle), 0);
  EXPECT_EQ(close_handle(file_, handle), -EINVAL) << "one close takes it from every importer";
  EXPECT_EQ(import_fd(file_, fd), static_cast<int>(handle)) << "a new handle, the same number";
}

TEST_F(GemTest, AnotherFileOfTheDeviceGetsItsOwnHandleOfTheSameObject) {
  make_handle(file_);
  const FileRef other = client_.open("dri/renderD128");
  make_handle(other);
  const int fd = keep(export_handle(file_, 1));
  EXPECT_EQ(import_fd(other, fd), 2);
  EXPECT_EQ(import_fd(other, fd), 2);
  EXPECT_EQ(drm(other).handles().lookup(GemHandle{2}).value(),
            drm(file_).handles().lookup(GemHandle{1}).value());
  EXPECT_EQ(close_handle(other, 2), 0);
  EXPECT_EQ(close_handle(file_, 1), 0) << "the exporter's handle is its own";
  EXPECT_EQ(import_fd(other, fd), 2) << "the dma-buf keeps the object alive";
}

TEST_F(GemTest, AnotherDeviceWrapsTheDmaBufAndExportsTheOriginal) {
  make_handle(file_);
  const FileRef foreign = client_.open("dri/renderD129");
  const int fd = keep(export_handle(file_, 1));
  const int handle = import_fd(foreign, fd);
  EXPECT_EQ(handle, 1);
  EXPECT_NE(drm(foreign).handles().lookup(GemHandle{1}).value(), GemRef(last_object_));
  const int again = keep(export_handle(foreign, 1));
  EXPECT_EQ(import_fd(file_, again), 1) << "recognised as the original";
}

TEST_F(GemTest, WhatIsNoDmaBufIsEinvalAndWhatIsNotOpenIsEbadf) {
  const int memfd = keep(::memfd_create("plain", 0));
  ASSERT_EQ(::ftruncate(memfd, kPageBytes), 0);
  EXPECT_EQ(import_fd(file_, memfd), -EINVAL);
  EXPECT_EQ(import_fd(file_, -1), -EBADF);
  EXPECT_EQ(import_fd(file_, 999), -EBADF);
  EXPECT_EQ(import_fd(file_, 0x7fffffff), -EBADF);
}

TEST_F(GemTest, ImportFlagsAreIgnored) {
  make_handle(file_);
  drm_prime_handle args{0, ~0u, keep(export_handle(file_, 1))};
  EXPECT_EQ(client_.ioctl<PrimeFdToHandle>(file_, args), 0);
  EXPECT_EQ(args.handle, 1u);
}

TEST_F(GemTest, OfTwoHandlesOfOneObjectTheOtherIsFoundWhenOneIsClosed) {
  const FileRef card = client_.open("dri/card0");
  const std::uint32_t first = make_handle(card);
  drm_gem_flink flink{first, 0};
  ASSERT_EQ(client_.ioctl<GemFlink>(card, flink), 0);
  drm_gem_open open{flink.name, 0, 0};
  ASSERT_EQ(client_.ioctl<GemOpen>(card, open), 0);
  const int fd = keep(export_handle(card, first));
  keep(export_handle(card, open.handle));
  EXPECT_EQ(close_handle(card, first), 0);
  EXPECT_EQ(import_fd(card, fd), static_cast<int>(open.handle));
}

TEST_F(GemTest, ADmaBufLivesAsLongAsADescriptorOrMapping) {
  make_handle(file_);
  const int fd = keep(export_handle(file_, 1));
  void* address = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(address, MAP_FAILED);
  EXPECT_EQ(close_handle(file_, 1), 0);
  std::weak_ptr<PlainObject> object = last_object_;
  last_object_.reset();
  drop(fd);
  machine_.sweep();
  machine_.dmabufs().sweep();
  EXPECT_FALSE(object.expired()) << "still mapped";
  ::munmap(address, kPageBytes);
  machine_.sweep();
  machine_.dmabufs().sweep();
  EXPECT_TRUE(object.expired());
}

}  // namespace
}  // namespace understudy::drm
