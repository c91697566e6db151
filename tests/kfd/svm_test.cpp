#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;
using Attributes = std::vector<kfd_ioctl_svm_attribute>;

constexpr std::uint64_t kVa = 0x7000'0000'0000;

class SvmTest : public KfdTest {
 protected:
  void SetUp() override {
    build({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2}});
    kfd_ = open_ready();
  }
  int set(std::uint64_t start, std::uint64_t size, Attributes attributes) {
    return set_svm(kfd_, start, size, std::move(attributes));
  }
  Attributes get(std::uint64_t start, std::uint64_t size, Attributes attributes, int expected = 0) {
    EXPECT_EQ(svm(kfd_, KFD_IOCTL_SVM_OP_GET_ATTR, start, size, attributes), expected);
    return attributes;
  }
  std::uint32_t get_one(std::uint64_t start, std::uint64_t size, std::uint32_t type,
                        std::uint32_t value = 0) {
    return get(start, size, {{type, value}})[0].value;
  }

  std::shared_ptr<KfdFile> kfd_;
  const Pages pages_{4 * kPage};
  const std::uint64_t start_ = pages_.address();
};

TEST_F(SvmTest, StructMustHoldItsAttributes) {
  kfd_ioctl_svm_args args{};
  args.start_addr = start_;
  args.size = kPage;
  args.nattr = 1;
  EXPECT_EQ(raw_ioctl(kfd_, 0xc0184b20, reinterpret_cast<std::uint64_t>(&args)), -EINVAL);
  args.nattr = 0;
  EXPECT_EQ(raw_ioctl(kfd_, 0xc0184b20, reinterpret_cast<std::uint64_t>(&args)), 0);
}

TEST_F(SvmTest, RangeMustBeAlignedAndNotEmpty) {
  EXPECT_EQ(set(start_ + 1, kPage, {}), -EINVAL);
  EXPECT_EQ(set(start_, kPage + 1, {}), -EINVAL);
  EXPECT_EQ(set(0, kPage, {}), -EINVAL);
  EXPECT_EQ(set(start_, 0, {}), -EINVAL);
}

TEST_F(SvmTest, UnknownOperationIsEinval) {
  Attributes none;
  EXPECT_EQ(svm(kfd_, 2, start_, kPage, none), -EINVAL);
}

TEST_F(SvmTest, AttributesAreCheckedBeforeTheRange) {
  EXPECT_EQ(set(kPage, kPage, {{99, 0}}), -EINVAL);
  EXPECT_EQ(set(kPage, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, kNoSuchGpu}}), -EINVAL);
  EXPECT_EQ(set(kPage, kPage, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, kNoSuchGpu}}), -EINVAL);
  EXPECT_EQ(set(kPage, kPage, {{KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_LOCATION_UNDEFINED}}),
            -EINVAL);
  EXPECT_EQ(set(start_, kPage, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_UNDEFINED}}), 0);
}

TEST_F(SvmTest, UnmappedRangeIsEfault) {
  EXPECT_EQ(set(kPage, kPage, {}), -EFAULT);
  get(kPage, kPage, {}, -EFAULT);
  ::munmap(pages_.as<char>() + 2 * kPage, kPage);
  EXPECT_EQ(set(start_, 4 * kPage, {}), -EFAULT);
}

TEST_F(SvmTest, WithoutAnyVmIsEinval) {
  machine_->clients().retire(self().client);
  kfd_ = open_kfd();
  EXPECT_EQ(set(start_, kPage, {}), -EINVAL);
}

TEST_F(SvmTest, RangeOfABoIsEaddrinuse) {
  const auto memory = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, start_ + kPage, start_ + kPage);
  EXPECT_EQ(map(kfd_, memory.handle, {1}).result, 0);
  EXPECT_EQ(set(start_, 4 * kPage, {}), -EADDRINUSE);
  EXPECT_EQ(set(start_, kPage, {}), 0);
}

TEST_F(SvmTest, BoOverARegisteredRangeIsEaddrinuse) {
  EXPECT_EQ(set(start_, kPage, {}), 0);
  EXPECT_EQ(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPage, start_).result, -EADDRINUSE);
  EXPECT_EQ(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, kVa, start_).result, -EADDRINUSE);
  EXPECT_EQ(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kPage, 0).result, 0);
  EXPECT_EQ(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPage, start_ + kPage).result, 0);
}

TEST_F(SvmTest, UnmappingDropsTheRegistration) {
  {
    const Pages pages(kPage);
    EXPECT_EQ(set(pages.address(), kPage, {}), 0);
    ::munmap(pages.as<void>(), kPage);
    EXPECT_EQ(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPage, pages.address()).result, 0);
  }
}

TEST_F(SvmTest, UnregisteredRangeHasDefaults) {
  const auto values = get(start_, kPage,
                          {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0},
                           {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0},
                           {KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0},
                           {KFD_IOCTL_SVM_ATTR_GRANULARITY, 0},
                           {KFD_IOCTL_SVM_ATTR_ACCESS, 1}});
  EXPECT_EQ(values[0].value, KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  EXPECT_EQ(values[1].value, KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  EXPECT_EQ(values[2].value, KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT);
  EXPECT_EQ(values[3].value, 9u);
  EXPECT_EQ(values[4].type, KFD_IOCTL_SVM_ATTR_NO_ACCESS);
}

TEST_F(SvmTest, WithXnackEveryRangeIsAccessible) {
  kfd_ioctl_set_xnack_mode_args xnack{1};
  ASSERT_EQ(ioctl<SetXnackMode>(kfd_, xnack), 0);
  EXPECT_EQ(get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, 1}})[0].type, KFD_IOCTL_SVM_ATTR_ACCESS);
}

TEST_F(SvmTest, AccessIsToldPerGpu) {
  EXPECT_EQ(set(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, 1}, {KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, 2}}), 0);
  const auto values = get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, 1}, {KFD_IOCTL_SVM_ATTR_ACCESS, 2}});
  EXPECT_EQ(values[0].type, KFD_IOCTL_SVM_ATTR_ACCESS);
  EXPECT_EQ(values[0].value, 1u);
  EXPECT_EQ(values[1].type, KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE);
  EXPECT_EQ(set(start_, kPage, {{KFD_IOCTL_SVM_ATTR_NO_ACCESS, 1}}), 0);
  EXPECT_EQ(get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, 1}})[0].type, KFD_IOCTL_SVM_ATTR_NO_ACCESS);
}

TEST_F(SvmTest, AskingForOtherAccessTypesIsEinval) {
  get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, 1}}, -EINVAL);
  get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_NO_ACCESS, 1}}, -EINVAL);
  get(start_, kPage, {{99, 1}}, -EINVAL);
  get(start_, kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, kNoSuchGpu}}, -EINVAL);
}

TEST_F(SvmTest, SubrangesAreCombined) {
  EXPECT_EQ(set(start_, 4 * kPage, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 1}}), 0);
  EXPECT_EQ(get_one(start_, 4 * kPage, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC), 1u);
  EXPECT_EQ(set(start_ + kPage, kPage,
                {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 2},
                 {KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO},
                 {KFD_IOCTL_SVM_ATTR_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT},
                 {KFD_IOCTL_SVM_ATTR_GRANULARITY, 4}}),
            0);
  EXPECT_EQ(get_one(start_, 4 * kPage, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC), KFD_IOCTL_SVM_LOCATION_UNDEFINED);
  EXPECT_EQ(get_one(start_ + kPage, kPage, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC), 2u);
  EXPECT_EQ(get_one(start_ + 2 * kPage, kPage, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC), 1u);
  EXPECT_EQ(get_one(start_, 4 * kPage, KFD_IOCTL_SVM_ATTR_SET_FLAGS), KFD_IOCTL_SVM_FLAG_HOST_ACCESS);
  constexpr std::uint32_t kAny =
      KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT | KFD_IOCTL_SVM_FLAG_GPU_RO;
  EXPECT_EQ(get_one(start_, 4 * kPage, KFD_IOCTL_SVM_ATTR_CLR_FLAGS), ~kAny);
  EXPECT_EQ(get_one(start_, 4 * kPage, KFD_IOCTL_SVM_ATTR_GRANULARITY), 4u);
  EXPECT_EQ(get_one(start_ + 2 * kPage, kPage, KFD_IOCTL_SVM_ATTR_GRANULARITY), 9u);
}

TEST_F(SvmTest, GranularityIsCapped) {
  EXPECT_EQ(set(start_, kPage, {{KFD_IOCTL_SVM_ATTR_GRANULARITY, 0xff}}), 0);
  EXPECT_EQ(get_one(start_, kPage, KFD_IOCTL_SVM_ATTR_GRANULARITY), 0x3fu);
}

}  // namespace
}  // namespace understudy::kfd::testing
