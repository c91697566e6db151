#include "uapi/decode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "uapi/amdgpu.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"
#include "uapi/kfd.h"
#include "uapi/vhsakmt.h"
#include "uapi/virtgpu.h"

namespace {

using namespace uapi;

template <typename Ioctl>
std::string decoded(const typename Ioctl::Args& args, Moment moment = Moment::kEntry) {
  return decode(Ioctl::descriptor(), std::as_bytes(std::span(&args, 1)), moment);
}

TEST(Decode, PrintsSizesAddressesAndFlagsTheWayTheyAreRead) {
  kfd::kfd_ioctl_alloc_memory_of_gpu_args args{};
  args.va_addr = 0x7f0000200000;
  args.size = 2 << 20;
  args.gpu_id = 24562;
  args.flags = kfd::KFD_IOC_ALLOC_MEM_FLAGS_VRAM | kfd::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  EXPECT_EQ(decoded<kfd::AllocMemoryOfGpu>(args),
            "{va_addr=0x7f0000200000, size=2 MiB, handle=0, mmap_offset=0, gpu_id=24562, "
            "flags=KFD_IOC_ALLOC_MEM_FLAGS_VRAM|KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE}");
}

TEST(Decode, KeepsUnknownFlagBitsAsANumber) {
  drm::drm_syncobj_create args{};
  args.flags = drm::DRM_SYNCOBJ_CREATE_SIGNALED | 0x40;
  EXPECT_EQ(decoded<drm::SyncobjCreate>(args), "{handle=0, flags=DRM_SYNCOBJ_CREATE_SIGNALED|0x40}");
}

TEST(Decode, PrintsAFieldOfBitsAmongFlagsAsOneValue) {
  amdgpu::drm_amdgpu_gem_va args{};
  args.operation = amdgpu::AMDGPU_VA_OP_MAP;
  args.flags = amdgpu::AMDGPU_VM_PAGE_READABLE | amdgpu::AMDGPU_VM_MTYPE_CC;
  const std::string text = decoded<amdgpu::GemVa>(args);
  EXPECT_NE(text.find("operation=AMDGPU_VA_OP_MAP"), std::string::npos) << text;
  EXPECT_NE(text.find("flags=AMDGPU_VM_MTYPE_CC|AMDGPU_VM_PAGE_READABLE"), std::string::npos) << text;
}

TEST(Decode, PrintsAnUnnamedValueAsANumber) {
  kfd::kfd_ioctl_create_event_args args{};
  args.event_type = 77;
  const std::string text = decoded<kfd::CreateEvent>(args);
  EXPECT_NE(text.find("event_type=77"), std::string::npos) << text;
}

TEST(Decode, PrintsNegativeValuesWithTheirSign) {
  amdgpu::drm_amdgpu_ctx args{};
  args.in.op = amdgpu::AMDGPU_CTX_OP_ALLOC_CTX;
  args.in.priority = amdgpu::AMDGPU_CTX_PRIORITY_LOW;
  EXPECT_EQ(decoded<amdgpu::Ctx>(args),
            "{in={op=AMDGPU_CTX_OP_ALLOC_CTX, flags=0, ctx_id=0, priority=AMDGPU_CTX_PRIORITY_LOW}}");
  args.in.priority = -3;
  EXPECT_EQ(decoded<amdgpu::Ctx>(args), "{in={op=AMDGPU_CTX_OP_ALLOC_CTX, flags=0, ctx_id=0, priority=-3}}");
}

TEST(Decode, ShowsTheInArmOnEntryAndTheOutArmAtExit) {
  amdgpu::drm_amdgpu_gem_create args{};
  args.in.bo_size = 4096;
  args.in.domains = amdgpu::AMDGPU_GEM_DOMAIN_GTT;
  EXPECT_EQ(decoded<amdgpu::GemCreate>(args),
            "{in={bo_size=4 KiB, alignment=0, domains=AMDGPU_GEM_DOMAIN_GTT, domain_flags=0}}");
  args.out = {.handle = 7};
  EXPECT_EQ(decoded<amdgpu::GemCreate>(args, Moment::kExit), "{out={handle=7}}");
}

TEST(Decode, ShowsOnlyTheUnionArmThatTheSelectorMeans) {
  amdgpu::drm_amdgpu_info args{};
  args.return_pointer = 0x1000;
  args.return_size = 16;
  args.query = amdgpu::AMDGPU_INFO_FW_VERSION;
  args.query_fw.fw_type = amdgpu::AMDGPU_INFO_FW_GFX_MEC;
  EXPECT_EQ(decoded<amdgpu::Info>(args),
            "{return_pointer=0x1000, return_size=16, query=AMDGPU_INFO_FW_VERSION, "
            "query_fw={fw_type=AMDGPU_INFO_FW_GFX_MEC, ip_instance=0, index=0}}");
  args.query = amdgpu::AMDGPU_INFO_DEV_INFO;
  EXPECT_EQ(decoded<amdgpu::Info>(args),
            "{return_pointer=0x1000, return_size=16, query=AMDGPU_INFO_DEV_INFO}");
}

TEST(Decode, ShowsTheArgumentsOfAProtocolCommandByItsType) {
  const CommandDescriptor& memory = vhsakmt::commands()[3];
  vhsakmt::vhsakmt_ccmd_memory_req request{};
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_AVAIL_MEM;
  request.Node = 1;
  const std::string text = decode(*memory.request, std::as_bytes(std::span(&request, 1)));
  EXPECT_NE(text.find("Node=1, blob_id=0, type=VHSAKMT_CCMD_MEMORY_AVAIL_MEM"), std::string::npos) << text;
  EXPECT_EQ(text.find("alloc_args"), std::string::npos) << text;
}

TEST(Decode, ShowsPaddingOnlyWhenItIsNotZero) {
  drm::drm_gem_close args{.handle = 5};
  EXPECT_EQ(decoded<drm::GemClose>(args), "{handle=5}");
  args.pad = 1;
  EXPECT_EQ(decoded<drm::GemClose>(args), "{handle=5, pad=1}");
}

TEST(Decode, LeavesOutFieldsThatAShortStructDoesNotHave) {
  kfd::kfd_ioctl_set_memory_policy_args args{};
  args.gpu_id = 3;
  const auto bytes = std::as_bytes(std::span(&args, 1)).first(offsetof(decltype(args), default_policy) + 2);
  const std::string text = decode(kfd::SetMemoryPolicy::descriptor(), bytes, Moment::kEntry);
  EXPECT_NE(text.find("gpu_id=3"), std::string::npos) << text;
  EXPECT_EQ(text.find("default_policy"), std::string::npos) << text;
  EXPECT_EQ(decode(kfd::SetMemoryPolicy::descriptor(), {}, Moment::kEntry), "{}");
}

TEST(Decode, PrintsTextUpToItsEndAndEscapesWhatIsNotText) {
  const StructDescriptor* type = find_struct(drm::structs(), "drm_mode_property_enum");
  ASSERT_NE(type, nullptr);
  drm::drm_mode_property_enum args{.value = 1, .name = "a\"b\n"};
  EXPECT_EQ(decode(*type, std::as_bytes(std::span(&args, 1))), "{value=1, name=\"a\\\"b\\x0a\"}");
}

TEST(Decode, ReadsAFlexibleArrayToTheEndOfTheBytes) {
  const kfd::kfd_ioctl_svm_args args{
      .start_addr = 0x10000, .size = 4096, .op = kfd::KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 2};
  const kfd::kfd_ioctl_svm_attribute attributes[] = {{kfd::KFD_IOCTL_SVM_ATTR_GRANULARITY, 9},
                                                     {kfd::KFD_IOCTL_SVM_ATTR_ACCESS, 1}};
  std::vector<std::byte> bytes(sizeof(args) + sizeof(attributes));
  std::memcpy(bytes.data(), &args, sizeof(args));
  std::memcpy(bytes.data() + sizeof(args), attributes, sizeof(attributes));
  EXPECT_EQ(
      decode(kfd::Svm::descriptor(), bytes, Moment::kEntry),
      "{start_addr=0x10000, size=4 KiB, op=KFD_IOCTL_SVM_OP_SET_ATTR, nattr=2, "
      "attrs=[{type=KFD_IOCTL_SVM_ATTR_GRANULARITY, value=9}, {type=KFD_IOCTL_SVM_ATTR_ACCESS, value=1}]}");
}

TEST(Decode, SplitsBitFields) {
  vhsakmt::HsaMemFlags flags{};
  flags.Value = 1u << 3 | 2u << 4;
  const StructDescriptor* type = find_struct(vhsakmt::structs(), "HsaMemFlags");
  ASSERT_NE(type, nullptr);
  const std::string text = decode(*type, std::as_bytes(std::span(&flags, 1)));
  EXPECT_NE(text.find("ReadOnly=1, PageSize=2, HostAccess=0"), std::string::npos) << text;
}

TEST(Decode, PrintsAnArgumentThatIsNoStruct) {
  const std::uint32_t framebuffer = 12;
  EXPECT_EQ(decode(drm::ModeRmfb::descriptor(), std::as_bytes(std::span(&framebuffer, 1)), Moment::kEntry),
            "12");
  EXPECT_EQ(decode(drm::SetMaster::descriptor(), {}, Moment::kEntry), "");
}

TEST(Decode, SurvivesEveryIoctlWithEveryLengthOfAllOnes) {
  for (const auto ioctls :
       {kfd::ioctls(), drm::ioctls(), amdgpu::ioctls(), amdxdna::ioctls(), virtgpu::ioctls()}) {
    for (const IoctlDescriptor& ioctl : ioctls) {
      const std::vector<std::byte> bytes(ioctl.size, std::byte{0xff});
      for (std::size_t length = 0; length <= bytes.size(); ++length) {
        const std::vector<std::byte> exact(bytes.begin(),
                                           bytes.begin() + static_cast<std::ptrdiff_t>(length));
        decode(ioctl, exact, Moment::kEntry);
        decode(ioctl, exact, Moment::kExit);
      }
    }
  }
}

TEST(Find, ByNameAndNumber) {
  EXPECT_EQ(find_ioctl(kfd::ioctls(), "AMDKFD_IOC_SVM"), &kfd::Svm::descriptor());
  EXPECT_EQ(find_ioctl(drm::ioctls(), drm::GemClose::kNr), &drm::GemClose::descriptor());
  EXPECT_EQ(find_ioctl(drm::ioctls(), 0xff), nullptr);
  EXPECT_EQ(find_struct(kfd::structs(), "no_such_struct"), nullptr);
}

}  // namespace
