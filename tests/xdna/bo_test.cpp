#include <fcntl.h>

#include "tests/xdna/npu_fixture.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

class CreateBoTest : public NpuTest {};

TEST_F(CreateBoTest, HandlesStartAtOneAndAreReused) {
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 4096), 1);
  EXPECT_EQ(create_bo(AMDXDNA_BO_CMD, 4096), 2);
  EXPECT_EQ(close_bo(1), 0);
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 1), 1);
}

TEST_F(CreateBoTest, BadArguments) {
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 4096, 0, 1), -EINVAL) << "flags";
  EXPECT_EQ(create_bo(0, 4096), -EINVAL) << "type 0";
  EXPECT_EQ(create_bo(5, 4096), -EINVAL) << "type 5";
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 0), -ENOSPC);
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, ~std::uint64_t{0}), -ENOSPC);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 4096), -EAGAIN) << "no heap";
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 0), -EINVAL);
  EXPECT_EQ(client_.ioctl(file_, CreateBo::kCmd, reinterpret_cast<void*>(kBadPointer)), -EFAULT);
}

TEST_F(CreateBoTest, HeapSizeMustBeAMultipleOf64MiB) {
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV_HEAP, 0), -EINVAL);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV_HEAP, 4096), -EINVAL);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV_HEAP, 65 * kMiB), -EINVAL);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV_HEAP, 576 * kMiB), -ENOSPC) << "npu4 has 512 MiB at most";
  EXPECT_GT(create_bo(AMDXDNA_BO_DEV_HEAP, 448 * kMiB), 0);
  EXPECT_GT(create_bo(AMDXDNA_BO_DEV_HEAP, 64 * kMiB), 0);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV_HEAP, 64 * kMiB), -ENOSPC);
}

TEST_F(CreateBoTest, DevBoNeedsAMappedHeap) {
  const int heap = create_bo(AMDXDNA_BO_DEV_HEAP, 64 * kMiB);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 4096), -EAGAIN);
  std::byte* address = map_bo(heap, 64 * kMiB);
  const int bo = create_bo(AMDXDNA_BO_DEV, 100);
  ASSERT_GT(bo, 0);
  EXPECT_EQ(info(bo).xdna_addr, 0x4000000u);
  EXPECT_EQ(info(bo).vaddr, reinterpret_cast<std::uint64_t>(address));
  EXPECT_EQ(info(bo).map_offset, kInvalidAddress);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 1024 * kMiB), -EINVAL) << "beyond the heap maximum";
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 100 * kMiB), -EAGAIN) << "beyond the chunks made so far";
}

TEST_F(CreateBoTest, ClosedHeapHandleKeepsTheHeap) {
  make_heap();
  EXPECT_EQ(close_bo(heap_handle_), 0);
  const int bo = create_bo(AMDXDNA_BO_DEV, 4096);
  ASSERT_GT(bo, 0);
  EXPECT_EQ(info(bo).xdna_addr, 0x4000000u);
}

TEST_F(CreateBoTest, ChunksMustBeMappedOneAfterTheOther) {
  make_heap();
  const int second = create_bo(AMDXDNA_BO_DEV_HEAP, 64 * kMiB);
  EXPECT_EQ(create_bo(AMDXDNA_BO_DEV, 4096), -EAGAIN) << "second chunk unmapped";
  // An address far from the first chunk.
  void* guard = ::mmap(nullptr, 256 * kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  map_bo(second, 64 * kMiB);
  const int result = create_bo(AMDXDNA_BO_DEV, 4096);
  EXPECT_TRUE(result == -EINVAL || result > 0) << "only if the kernel happened to place it right behind";
  ::munmap(guard, 256 * kMiB);
}

class GetBoInfoTest : public NpuTest {};

TEST_F(GetBoInfoTest, UnmappedShareBoHasNoAddress) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const auto before = info(bo);
  EXPECT_GE(before.map_offset, std::uint64_t{0x100000000});
  EXPECT_EQ(before.vaddr, kInvalidAddress);
  EXPECT_EQ(before.xdna_addr, kInvalidAddress);
}

TEST_F(GetBoInfoTest, FirstMappingIsReportedUntilTheLastIsGone) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 8192);
  std::byte* first = map_bo(bo, 8192);
  std::byte* second = map_bo(bo, 8192);
  EXPECT_EQ(info(bo).vaddr, reinterpret_cast<std::uint64_t>(first));
  EXPECT_EQ(info(bo).xdna_addr, reinterpret_cast<std::uint64_t>(first));
  ::munmap(first, 8192);
  EXPECT_EQ(info(bo).vaddr, reinterpret_cast<std::uint64_t>(first)) << "stale while any mapping lives";
  ::munmap(second, 8192);
  EXPECT_EQ(info(bo).vaddr, kInvalidAddress);
}

TEST_F(GetBoInfoTest, BadArguments) {
  amdxdna_drm_get_bo_info args{};
  args.handle = kNoSuchHandle;
  EXPECT_EQ(client_.ioctl<GetBoInfo>(file_, args), -ENOENT);
  args.handle = static_cast<std::uint32_t>(create_bo(AMDXDNA_BO_SHARE, 4096));
  args.pad = 1;
  EXPECT_EQ(client_.ioctl<GetBoInfo>(file_, args), -EINVAL);
  args.pad = 0;
  args.ext = 1;
  EXPECT_EQ(client_.ioctl<GetBoInfo>(file_, args), -EINVAL);
  args.ext = 0;
  args.ext_flags = 1;
  EXPECT_EQ(client_.ioctl<GetBoInfo>(file_, args), -EINVAL);
}

class XdnaMmapTest : public NpuTest {};

TEST_F(XdnaMmapTest, OnlyTheExactStartAndNoMoreThanTheBo) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 8192);
  const std::uint64_t offset = info(bo).map_offset;
  EXPECT_EQ(client_.mmap(file_, 4096, PROT_READ, offset + 4096), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(client_.mmap(file_, 12288, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(client_.mmap(file_, 4096, PROT_READ, offset), MAP_FAILED) << "shorter is fine";
}

TEST_F(XdnaMmapTest, PrivateMappingIsEinval) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  EXPECT_EQ(client_.mmap(file_, 4096, PROT_READ, info(bo).map_offset, MAP_PRIVATE), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(XdnaMmapTest, BelowTheGemSpaceIsEopnotsupp) {
  EXPECT_EQ(client_.mmap(file_, 4096, PROT_READ, 0), MAP_FAILED);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(XdnaMmapTest, ForeignFileIsEaccesAndFreedBoIsEinval) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const std::uint64_t offset = info(bo).map_offset;
  const FileRef other = client_.open("accel/accel0");
  EXPECT_EQ(client_.mmap(other, 4096, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(close_bo(bo), 0);
  EXPECT_EQ(client_.mmap(file_, 4096, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(XdnaMmapTest, MappingOutlivesTheHandle) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  std::byte* bytes = map_bo(bo, 4096);
  bytes[0] = std::byte{42};
  EXPECT_EQ(close_bo(bo), 0);
  EXPECT_EQ(bytes[0], std::byte{42});
}

class XdnaPrimeTest : public NpuTest {};

TEST_F(XdnaPrimeTest, SameFileGivesTheSameHandleWithoutAReference) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const int fd = export_bo(bo);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(import_bo_in(file_, fd), bo);
  EXPECT_EQ(import_bo_in(file_, fd), bo);
  EXPECT_EQ(close_bo(bo), 0) << "one close kills it for everybody";
  EXPECT_EQ(close_bo(bo), -EINVAL);
  ::close(fd);
}

TEST_F(XdnaPrimeTest, TheHistoricDoubleDestroyIsNamedWithBothCalls) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const int fd = export_bo(bo);
  const int imported = import_bo_in(file_, fd);
  EXPECT_EQ(close_bo(imported), 0);
  EXPECT_EQ(close_bo(bo), -EINVAL);
  const auto findings = machine_.ledger().findings();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::kDoubleDestroy);
  EXPECT_EQ(findings[0].first.call, "DRM_IOCTL_GEM_CLOSE");
  EXPECT_EQ(findings[0].actor.call, "DRM_IOCTL_GEM_CLOSE");
  ::close(fd);
}

TEST_F(XdnaPrimeTest, AnotherFileGetsANewObjectWithTheSameBytes) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  std::byte* here = map_bo(bo, 4096);
  const int fd = export_bo(bo);
  const FileRef other = client_.open("accel/accel0");
  const int there = import_bo_in(other, fd);
  ASSERT_GT(there, 0);
  EXPECT_EQ(close_bo_in(other, there), 0) << "its own handle";
  void* dma_buf = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(dma_buf, MAP_FAILED);
  static_cast<std::byte*>(dma_buf)[7] = std::byte{9};
  EXPECT_EQ(here[7], std::byte{9});
  ::close(fd);
}

TEST_F(XdnaPrimeTest, VaTableImportIsAlwaysANewHandle) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const int fd = export_bo(bo);
  amdxdna_drm_va_tbl table{};
  table.dmabuf_fd = fd;
  const auto address = reinterpret_cast<std::uint64_t>(&table);
  const int first = create_bo(AMDXDNA_BO_SHARE, 0, address);
  const int second = create_bo(AMDXDNA_BO_SHARE, 0, address);
  EXPECT_GT(first, 0);
  EXPECT_NE(first, bo);
  EXPECT_NE(first, second);
  table.dmabuf_fd = 0x7fff;
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 0, address), -EBADF);
  table.dmabuf_fd = 0;
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 0, address), -EINVAL);
  ::close(fd);
}

TEST_F(XdnaPrimeTest, BadExportsAndImports) {
  make_heap();
  const int dev = create_bo(AMDXDNA_BO_DEV, 4096);
  EXPECT_EQ(export_bo(dev), -EOPNOTSUPP);
  EXPECT_EQ(export_bo(kNoSuchHandle), -ENOENT);
  EXPECT_EQ(export_bo(dev, 1), -EINVAL);
  EXPECT_EQ(import_bo_in(file_, -1), -EBADF);
  EXPECT_EQ(import_bo_in(file_, 0), -EINVAL);
}

TEST_F(XdnaPrimeTest, FirstExportsAccessModeSticks) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  const int read_only = export_bo(bo, O_CLOEXEC);
  const int wished_writable = export_bo(bo, O_CLOEXEC | O_RDWR);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, wished_writable, 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  ::close(read_only);
  ::close(wished_writable);
}

struct VaTable {
  std::int32_t dmabuf_fd = 0;
  std::uint32_t num_entries = 0;
  amdxdna_drm_va_entry entries[2] = {};
};

class UserPagesTest : public NpuTest {
 protected:
  UserPagesTest()
      : pages_(static_cast<std::byte*>(
            ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~UserPagesTest() override { ::munmap(pages_, 8192); }
  int create(const VaTable& table) {
    return create_bo(AMDXDNA_BO_SHARE, 0, reinterpret_cast<std::uint64_t>(&table));
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(pages_); }
  std::byte* pages_;
};

TEST_F(UserPagesTest, PinnedMemoryHasItsOwnAddressAndNoMapping) {
  const int bo = create({0, 1, {{address(), 8192}}});
  ASSERT_GT(bo, 0);
  EXPECT_EQ(info(bo).map_offset, 0u);
  EXPECT_EQ(info(bo).vaddr, address());
  EXPECT_EQ(info(bo).xdna_addr, address());
  EXPECT_EQ(export_bo(bo), -EOPNOTSUPP);
}

TEST_F(UserPagesTest, BadTables) {
  EXPECT_EQ(create_bo(AMDXDNA_BO_SHARE, 0, kBadPointer), -EINVAL) << "unreadable table is EINVAL, not EFAULT";
  EXPECT_EQ(create({0, 1, {{address() + 1, 4096}}}), -EINVAL);
  EXPECT_EQ(create({0, 1, {{address(), 100}}}), -EINVAL);
  EXPECT_EQ(create({0, 1, {{address(), 0}}}), -EINVAL);
  EXPECT_EQ(create({0, 2, {{address(), 4096}, {address(), ~std::uint64_t{4095}}}}), -EINVAL) << "overflow";
  EXPECT_EQ(create({0, ~std::uint32_t{0}, {}}), -EINVAL);
  ::mprotect(pages_ + 4096, 4096, PROT_NONE);
  EXPECT_EQ(create({0, 1, {{address(), 8192}}}), -ENOMEM) << "fewer pages than asked for";
}

class SyncBoTest : public NpuTest {
 protected:
  int sync(std::uint32_t handle, std::uint32_t direction, std::uint64_t offset, std::uint64_t size) {
    amdxdna_drm_sync_bo args{handle, direction, offset, size};
    return client_.ioctl<SyncBo>(file_, args);
  }
};

TEST_F(SyncBoTest, Ranges) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  EXPECT_EQ(sync(bo, SYNC_DIRECT_TO_DEVICE, 0, 4096), 0);
  EXPECT_EQ(sync(bo, SYNC_DIRECT_TO_DEVICE, 0, 1 << 20), 0) << "size beyond the end is clamped";
  EXPECT_EQ(sync(bo, SYNC_DIRECT_TO_DEVICE, 4096, 1), -EINVAL);
  EXPECT_EQ(sync(bo, SYNC_DIRECT_TO_DEVICE, 1, ~std::uint64_t{0}), -EINVAL);
  EXPECT_EQ(sync(bo, 77, 0, 4096), 0) << "direction is not validated";
  EXPECT_EQ(sync(kNoSuchHandle, SYNC_DIRECT_TO_DEVICE, 0, 1), -ENOENT);
}

TEST_F(SyncBoTest, FromDeviceIsEinvalUnlessItIsADebugBuffer) {
  const int bo = create_bo(AMDXDNA_BO_SHARE, 4096);
  EXPECT_EQ(sync(bo, SYNC_DIRECT_FROM_DEVICE, 0, 4096), -EINVAL);
}

}  // namespace
}  // namespace understudy::xdna
