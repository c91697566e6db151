#include "sim/kfd/gpu_vm.h"

#include "sim/kfd/amdgpu_bo.h"
#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {
namespace {

constexpr std::uint64_t kVa = 0x1'0000'0000;

class GpuVmTest : public KfdTest {
 protected:
  BoRef make_bo(std::uint64_t size) {
    BoSpec spec;
    spec.size_bytes = size;
    return AmdgpuBo::create(*gpus_[0], nullptr, spec).value();
  }
  GpuMapping mapping(const BoRef& bo, std::uint64_t start, std::uint64_t size, std::uint64_t offset = 0) {
    GpuMapping mapping;
    mapping.start = start;
    mapping.size_bytes = size;
    mapping.bo = bo;
    mapping.bo_offset_bytes = offset;
    return mapping;
  }
  GpuVm vm_;
};

TEST_F(GpuVmTest, MapChecksItsArguments) {
  const BoRef bo = make_bo(4 * kPage);
  EXPECT_EQ(vm_.map(mapping(bo, kVa + 1, kPage)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, kVa, kPage + 1)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, kVa, kPage, 1)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, kVa, 0)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, kVa, 5 * kPage)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, kVa, kPage, 4 * kPage)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, GpuVm::kEndAddress, kPage)).error(), Errno(EINVAL));
  EXPECT_EQ(vm_.map(mapping(bo, ~std::uint64_t{0} << 12, kPage)).error(), Errno(EINVAL));
  EXPECT_TRUE(vm_.map(mapping(bo, GpuVm::kEndAddress - kPage, kPage)));
}

TEST_F(GpuVmTest, OverlapIsEinvalFromEverySide) {
  const BoRef bo = make_bo(8 * kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa + 2 * kPage, 2 * kPage)));
  EXPECT_FALSE(vm_.map(mapping(bo, kVa + kPage, 2 * kPage)));
  EXPECT_FALSE(vm_.map(mapping(bo, kVa + 3 * kPage, 2 * kPage)));
  EXPECT_FALSE(vm_.map(mapping(bo, kVa, 8 * kPage)));
  EXPECT_TRUE(vm_.map(mapping(bo, kVa, 2 * kPage)));
  EXPECT_TRUE(vm_.map(mapping(bo, kVa + 4 * kPage, kPage)));
}

TEST_F(GpuVmTest, UnmapWantsTheBoAndItsStart) {
  const BoRef bo = make_bo(2 * kPage), other = make_bo(kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, 2 * kPage)));
  EXPECT_EQ(vm_.unmap(*other, kVa, false).error(), Errno(ENOENT));
  EXPECT_EQ(vm_.unmap(*bo, kVa + kPage, false).error(), Errno(ENOENT));
  EXPECT_EQ(vm_.unmap(*bo, kVa, true).error(), Errno(ENOENT));
  EXPECT_TRUE(vm_.unmap(*bo, kVa, false));
  EXPECT_FALSE(vm_.find(kVa));
}

TEST_F(GpuVmTest, ReplaceSplitsWhatItOverlaps) {
  const BoRef bo = make_bo(8 * kPage), other = make_bo(2 * kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, 8 * kPage)));
  ASSERT_TRUE(vm_.replace(mapping(other, kVa + 3 * kPage, 2 * kPage)));
  EXPECT_EQ(vm_.mapping_count(), 3u);
  EXPECT_EQ(vm_.find_start(kVa)->size_bytes, 3 * kPage);
  EXPECT_EQ(vm_.find(kVa + 3 * kPage)->bo, other);
  const auto tail = vm_.find_start(kVa + 5 * kPage);
  EXPECT_EQ(tail->size_bytes, 3 * kPage);
  EXPECT_EQ(tail->bo_offset_bytes, 5 * kPage);
}

TEST_F(GpuVmTest, ClearTakesEverythingInTheRange) {
  const BoRef bo = make_bo(8 * kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, 2 * kPage)));
  ASSERT_TRUE(vm_.map(mapping(bo, kVa + 4 * kPage, 2 * kPage)));
  vm_.clear(kVa + kPage, 4 * kPage);
  EXPECT_TRUE(vm_.find(kVa));
  EXPECT_FALSE(vm_.find(kVa + kPage));
  EXPECT_FALSE(vm_.find(kVa + 4 * kPage));
  EXPECT_TRUE(vm_.find(kVa + 5 * kPage));
  vm_.clear(0, kPage);
}

TEST_F(GpuVmTest, LastHandleTakesGemMappingsAndLeavesKfds) {
  const BoRef bo = make_bo(kPage);
  GpuMapping by_kfd = mapping(bo, kVa + kMiB, kPage);
  by_kfd.made_by_kfd = true;
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, kPage)));
  ASSERT_TRUE(vm_.map(by_kfd));
  vm_.handle_opened(*bo);
  vm_.handle_opened(*bo);
  vm_.handle_closed(*bo);
  EXPECT_TRUE(vm_.find(kVa));
  vm_.handle_closed(*bo);
  EXPECT_FALSE(vm_.find(kVa));
  EXPECT_TRUE(vm_.find(kVa + kMiB));
}

TEST_F(GpuVmTest, TranslationStopsAtTheEndOfAMapping) {
  const BoRef bo = make_bo(4 * kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, 2 * kPage, kPage)));
  GpuFault fault;
  const auto translation = vm_.translate(kVa + 100, kMiB, Access::kRead, &fault);
  ASSERT_TRUE(translation);
  EXPECT_EQ(translation->offset_bytes, kPage + 100);
  EXPECT_EQ(translation->size_bytes, 2 * kPage - 100);
}

TEST_F(GpuVmTest, MissAndForbiddenAccessAreToldApart) {
  const BoRef bo = make_bo(kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, kPage)));
  GpuFault fault;
  EXPECT_FALSE(vm_.translate(kVa + kPage + 5, 1, Access::kRead, &fault));
  EXPECT_EQ(fault.address, kVa + kPage);
  EXPECT_TRUE(fault.not_present);
  EXPECT_FALSE(vm_.translate(kVa, 1, Access::kWrite, &fault));
  EXPECT_TRUE(fault.read_only);
  EXPECT_FALSE(fault.not_present);
  EXPECT_FALSE(vm_.translate(kVa, 1, Access::kExecute, &fault));
  EXPECT_TRUE(fault.no_execute);
}

TEST_F(GpuVmTest, MappingKeepsTheBo) {
  const std::uint64_t before = gpus_[0]->vram_used_bytes();
  BoRef bo = make_bo(kPage);
  ASSERT_TRUE(vm_.map(mapping(bo, kVa, kPage)));
  bo.reset();
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), before + kPage);
  vm_.clear(kVa, kPage);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), before);
}

}  // namespace
}  // namespace understudy::kfd::testing
