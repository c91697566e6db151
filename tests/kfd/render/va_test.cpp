// GEM_VA. Expected values: facts/kfd.md D.6, amdgpu_gem.c: amdgpu_gem_va_ioctl, amdgpu_vm.c.
#include "sim/drm/syncobj.h"
#include "tests/kfd/render/render_fixture.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint64_t kHighVa = 0xffff800000000000;

class RenderVa : public RenderTest {
 protected:
  RenderVa() : handle_(static_cast<std::uint32_t>(create_bo(4 * kPage))) {}
  int unmap(std::uint64_t address, std::uint64_t size = kPage, std::uint32_t flags = 0) {
    return va(AMDGPU_VA_OP_UNMAP, handle_, address, size, 0, flags);
  }
  std::optional<GpuMapping> at(std::uint64_t address) { return amdgpu(file_).vm()->find(address); }
  drm_amdgpu_gem_va map_args() {
    drm_amdgpu_gem_va args{};
    args.handle = handle_;
    args.operation = AMDGPU_VA_OP_MAP;
    args.flags = kReadWriteExecute;
    args.va_address = kVa;
    args.map_size = kPage;
    return args;
  }
  int call(drm_amdgpu_gem_va args) { return client_.ioctl<GemVa>(file_, args); }

  const std::uint32_t handle_;
};

TEST_F(RenderVa, MapAndUnmap) {
  ASSERT_EQ(map_va(handle_, kVa, 2 * kPage, kPage, AMDGPU_VM_PAGE_READABLE), 0);
  ASSERT_TRUE(at(kVa + kPage));
  EXPECT_EQ(at(kVa)->bo_offset_bytes, kPage);
  EXPECT_TRUE(at(kVa)->permissions.readable);
  EXPECT_FALSE(at(kVa)->permissions.writable);
  EXPECT_FALSE(at(kVa + 2 * kPage));
  EXPECT_EQ(unmap(kVa, 77 * kPage), 0) << "the size does not count";
  EXPECT_FALSE(at(kVa));
  EXPECT_EQ(unmap(kVa), -ENOENT);
}

TEST_F(RenderVa, AddressesAreCheckedFirst) {
  EXPECT_EQ(map_va(kNoSuchHandle, 0xf000, kPage), -EINVAL) << "reserved at the bottom";
  EXPECT_EQ(map_va(kNoSuchHandle, std::uint64_t{1} << 47, kPage), -EINVAL) << "the hole";
  EXPECT_EQ(map_va(kNoSuchHandle, kHighVa - kPage, kPage), -EINVAL);
  EXPECT_EQ(map_va(kNoSuchHandle, ~std::uint64_t{0} - kPage + 1, kPage), -EINVAL) << "reserved at the top";
  EXPECT_EQ(map_va(kNoSuchHandle, kVa, ~std::uint64_t{0}), -EINVAL);
  EXPECT_EQ(map_va(kNoSuchHandle, kVa, kPage), -ENOENT);
}

TEST_F(RenderVa, TheFirstAndLastAddresses) {
  EXPECT_EQ(map_va(handle_, 0x10000, kPage), 0);
  EXPECT_EQ(map_va(handle_, kHighVa, kPage), 0);
  EXPECT_TRUE(at(std::uint64_t{1} << 47)) << "page tables have 48 bits";
  const std::uint64_t top = 0xffffffffffffffff - (4 * kMiB + 0x10000) + 1;
  EXPECT_EQ(map_va(handle_, top - kPage, kPage), 0);
  EXPECT_EQ(map_va(handle_, top, kPage), -EINVAL);
}

TEST_F(RenderVa, FlagsAndOperationsAreChecked) {
  EXPECT_EQ(map_va(handle_, kVa, kPage, 0, 1u << 31), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, kPage, 0, AMDGPU_VM_PAGE_PRT | AMDGPU_VM_PAGE_READABLE), -EINVAL);
  for (const std::uint32_t operation : {0u, 5u, 77u}) EXPECT_EQ(va(operation, handle_, kVa, kPage), -EINVAL);
  drm_amdgpu_gem_va args = map_args();
  args.flags = AMDGPU_VM_DELAY_UPDATE;
  args.vm_timeline_syncobj_out = 1;
  EXPECT_EQ(call(args), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, kPage, 0, kReadWriteExecute | AMDGPU_VM_MTYPE_UC | AMDGPU_VM_PAGE_NOALLOC),
            0);
}

TEST_F(RenderVa, MapChecksItsRange) {
  EXPECT_EQ(map_va(handle_, kVa + 1, kPage), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, 100), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, kPage, 100), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, 0), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, 5 * kPage), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa, kPage, 4 * kPage), -EINVAL);
}

TEST_F(RenderVa, OverlapIsEinval) {
  ASSERT_EQ(map_va(handle_, kVa, 4 * kPage), 0);
  EXPECT_EQ(map_va(handle_, kVa, kPage), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa + 3 * kPage, 2 * kPage), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa - kPage, 2 * kPage), -EINVAL);
  EXPECT_EQ(map_va(handle_, kVa + 4 * kPage, kPage), 0);
}

TEST_F(RenderVa, UnmapNeedsTheRightBoAndStart) {
  const auto other = static_cast<std::uint32_t>(create_bo(kPage));
  ASSERT_EQ(map_va(handle_, kVa, 2 * kPage), 0);
  EXPECT_EQ(va(AMDGPU_VA_OP_UNMAP, other, kVa, kPage), -ENOENT);
  EXPECT_EQ(unmap(kVa + kPage), -ENOENT);
  EXPECT_EQ(va(AMDGPU_VA_OP_UNMAP, kNoSuchHandle, kVa, kPage), -ENOENT);
}

TEST_F(RenderVa, ClearRemovesAndSplits) {
  ASSERT_EQ(map_va(handle_, kVa, 4 * kPage), 0);
  EXPECT_EQ(va(AMDGPU_VA_OP_CLEAR, kNoSuchHandle, kVa + kPage, kPage), 0) << "no handle needed";
  EXPECT_TRUE(at(kVa));
  EXPECT_FALSE(at(kVa + kPage));
  ASSERT_TRUE(at(kVa + 2 * kPage));
  EXPECT_EQ(at(kVa + 2 * kPage)->bo_offset_bytes, 2 * kPage);
  EXPECT_EQ(va(AMDGPU_VA_OP_CLEAR, 0, kVa + kMiB, kPage), 0) << "nothing there: fine";
  EXPECT_EQ(va(AMDGPU_VA_OP_CLEAR, 0, kVa, 0), -EINVAL);
  EXPECT_EQ(va(AMDGPU_VA_OP_CLEAR, 0, kVa + 1, kPage), -EINVAL);
}

TEST_F(RenderVa, ReplaceTakesTheRange) {
  const auto other = static_cast<std::uint32_t>(create_bo(kPage));
  ASSERT_EQ(map_va(handle_, kVa, 4 * kPage), 0);
  EXPECT_EQ(va(AMDGPU_VA_OP_REPLACE, other, kVa + kPage, kPage), 0);
  EXPECT_EQ(at(kVa)->bo, bo(handle_));
  EXPECT_EQ(at(kVa + kPage)->bo, bo(other));
  EXPECT_EQ(at(kVa + 3 * kPage)->bo, bo(handle_));
  EXPECT_EQ(va(AMDGPU_VA_OP_REPLACE, other, kVa, 2 * kPage), -EINVAL) << "larger than the BO";
  EXPECT_EQ(at(kVa)->bo, bo(handle_)) << "and nothing was removed";
}

TEST_F(RenderVa, PartiallyResidentRangesNeedNoBo) {
  ASSERT_EQ(va(AMDGPU_VA_OP_MAP, kNoSuchHandle, kVa, 16 * kPage, 0, AMDGPU_VM_PAGE_PRT), 0);
  ASSERT_TRUE(at(kVa));
  EXPECT_EQ(at(kVa)->bo, nullptr);
  GpuFault fault;
  EXPECT_TRUE(amdgpu(file_).vm()->translate(kVa, 8, Access::kWrite, &fault));
  EXPECT_EQ(unmap(kVa), -ENOENT) << "not a mapping of that BO";
  EXPECT_EQ(unmap(kVa, 16 * kPage, AMDGPU_VM_PAGE_PRT), 0);
  EXPECT_EQ(unmap(kVa, 16 * kPage, AMDGPU_VM_PAGE_PRT), -ENOENT);
}

TEST_F(RenderVa, ClosingTheHandleDropsItsMappings) {
  ASSERT_EQ(map_va(handle_, kVa, kPage), 0);
  ASSERT_EQ(map_va(handle_, kVa + kMiB, kPage), 0);
  EXPECT_EQ(close_bo(handle_), 0);
  EXPECT_EQ(amdgpu(file_).vm()->mapping_count(), 0u);
  EXPECT_EQ(gpu().gtt_used_bytes(), 0u);
}

TEST_F(RenderVa, MappingsBelongToTheFile) {
  const FileRef other = client_.open("dri/renderD128");
  ASSERT_EQ(map_va(handle_, kVa, kPage), 0);
  EXPECT_EQ(amdgpu(other).vm()->mapping_count(), 0u);
}

TEST_F(RenderVa, AnOldCallerHasNoTimeline) {
  // 40 bytes, and as drmCommandWriteRead sends it.
  drm_amdgpu_gem_va args = map_args();
  args.vm_timeline_point = ~std::uint64_t{0};
  args.vm_timeline_syncobj_out = 4711;
  args.num_syncobj_handles = 4711;
  EXPECT_EQ(client_.ioctl(file_, 0xc0286448, &args), 0);
  EXPECT_TRUE(at(kVa));
}

TEST_F(RenderVa, TheTimelinePointIsReachedAtOnce) {
  const std::uint32_t timeline = make_syncobj();
  drm_amdgpu_gem_va args = map_args();
  args.vm_timeline_syncobj_out = 4711;
  args.vm_timeline_point = 3;
  EXPECT_EQ(call(args), -ENOENT);
  EXPECT_FALSE(at(kVa)) << "looked up before anything is done";
  args.vm_timeline_syncobj_out = timeline;
  EXPECT_EQ(call(args), 0);
  EXPECT_EQ(amdgpu(file_).syncobjs().find(timeline)->query(false), 3u);
}

TEST_F(RenderVa, InputFencesAreWaitedFor) {
  const std::uint32_t input = make_syncobj();
  std::uint32_t handles[] = {input};
  drm_amdgpu_gem_va args = map_args();
  args.num_syncobj_handles = 1;
  args.input_fence_syncobj_handles = kBadPointer;
  EXPECT_EQ(call(args), -EFAULT);
  args.input_fence_syncobj_handles = reinterpret_cast<std::uint64_t>(handles);
  EXPECT_EQ(call(args), -EINVAL) << "nothing submitted";
  handles[0] = 0;
  EXPECT_EQ(call(args), -EINVAL);
  handles[0] = 4711;
  EXPECT_EQ(call(args), -ENOENT);

  handles[0] = input;
  const auto fence = std::make_shared<drm::Fence>();
  amdgpu(file_).syncobjs().find(input)->replace(fence);
  auto waiting = client_.start(file_, GemVa::kCmd, reinterpret_cast<std::uint64_t>(&args));
  EXPECT_FALSE(waiting->answered());
  EXPECT_FALSE(at(kVa));
  fence->signal();
  EXPECT_EQ(waiting->wait(), 0);
  EXPECT_TRUE(at(kVa));
}

}  // namespace
}  // namespace understudy::kfd
