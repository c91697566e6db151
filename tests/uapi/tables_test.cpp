#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "interfaces.h"
#include "uapi/amdgpu.h"
#include "uapi/amdxdna_variants.h"
#include "uapi/drm_variants.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"
#include "uapi/vhsakmt_variants.h"
#include "uapi/virtgpu_variants.h"

namespace {

using namespace uapi;

class Tables : public testing::TestWithParam<Interface> {};

INSTANTIATE_TEST_SUITE_P(Interfaces, Tables, testing::ValuesIn(interfaces()), [](const auto& info) {
  std::string name = info.param.name;
  for (auto at = name.find("::"); at != std::string::npos; at = name.find("::")) name.replace(at, 2, "_");
  return name;
});

TEST_P(Tables, NoTwoIoctlsHaveTheSameNumberOrName) {
  std::set<std::uint32_t> numbers;
  std::set<std::string> names;
  for (const IoctlDescriptor& ioctl : GetParam().ioctls) {
    EXPECT_TRUE(numbers.insert(ioctl.nr).second) << ioctl.name;
    EXPECT_TRUE(names.insert(ioctl.name).second) << ioctl.name;
  }
}

TEST_P(Tables, CommandWordEncodesNumberDirectionAndSizeOfTheStruct) {
  for (const IoctlDescriptor& ioctl : GetParam().ioctls) {
    SCOPED_TRACE(ioctl.name);
    EXPECT_EQ(cmd_nr(ioctl.cmd), ioctl.nr);
    EXPECT_EQ(cmd_dir(ioctl.cmd), ioctl.dir);
    EXPECT_EQ(cmd_size(ioctl.cmd), ioctl.size);
    EXPECT_EQ(cmd_type(ioctl.cmd), std::string_view(ioctl.name).starts_with("AMDKFD") ? 'K' : 'd');
    if (ioctl.args != nullptr) {
      EXPECT_EQ(ioctl.args->size, ioctl.size);
    }
    EXPECT_EQ(ioctl.size == 0, ioctl.dir == Direction::kNone);
  }
}

TEST_P(Tables, FieldsLieInsideTheirStructInOrderAndOverlapOnlyInUnions) {
  for_each_struct(GetParam(), [](const StructDescriptor& type) {
    SCOPED_TRACE(type.name);
    EXPECT_EQ(type.size % type.align, 0u);
    std::uint32_t end = 0;
    const FieldDescriptor* before = nullptr;
    for (const FieldDescriptor& field : type.fields) {
      SCOPED_TRACE(field.name);
      EXPECT_LE(field.offset + field.size(), type.size);
      const bool bits_of_one_unit = before != nullptr && before->bit_count != 0 && field.bit_count != 0 &&
                                    before->bit_offset + before->bit_count <= field.bit_offset;
      const bool same_union =
          before != nullptr && field.union_group != 0 && field.union_group == before->union_group;
      if (type.is_union) {
        if (field.bit_count == 0) {
          EXPECT_EQ(field.offset, 0u);
        }
      } else if (!bits_of_one_unit && !same_union) {
        EXPECT_GE(field.offset, end);
      }
      end = std::max(end, field.offset + field.size());
      before = &field;
    }
  });
}

TEST_P(Tables, FieldSizesAgreeWithTheirKind) {
  for_each_struct(GetParam(), [](const StructDescriptor& type) {
    for (const FieldDescriptor& field : type.fields) {
      SCOPED_TRACE(std::string(type.name) + "." + field.name);
      EXPECT_EQ(field.kind == FieldKind::kStruct, field.nested != nullptr);
      if (field.nested != nullptr) {
        EXPECT_EQ(field.element_size, field.nested->size);
      } else {
        EXPECT_TRUE(std::set<std::uint32_t>({1, 2, 4, 8}).contains(field.element_size));
      }
      if (field.kind == FieldKind::kPointer || field.kind == FieldKind::kAddress) {
        EXPECT_EQ(field.element_size, 8u);
      }
      if (field.count != 1) {
        EXPECT_TRUE(field.is_array);
      }
      if (field.count == 0 && field.union_group == 0) {
        EXPECT_EQ(field.offset, type.size) << "a flexible array is at the end";
      }
    }
  });
}

TEST_P(Tables, SelectorsNameAnArmOfTheFirstUnion) {
  for (const StructDescriptor& type : GetParam().structs) {
    if (type.selector == nullptr) continue;
    SCOPED_TRACE(type.name);
    ASSERT_LT(type.selector->field, type.fields.size());
    EXPECT_EQ(type.fields[type.selector->field].union_group, 0);
    for (const ArmSelector::Choice& choice : type.selector->choices) {
      EXPECT_TRUE(std::ranges::any_of(
          type.fields, [&](const auto& field) { return field.union_group == 1 && field.arm == choice.arm; }));
    }
  }
}

TEST_P(Tables, NoTwoConstantsHaveTheSameName) {
  std::set<std::string> names;
  for (const ConstantDescriptor& constant : GetParam().constants) {
    EXPECT_TRUE(names.insert(constant.name).second) << constant.name;
  }
}

// Numbers as strace prints them for ROCm on a real machine.
TEST(IoctlTypes, HaveTheKernelsCommandWords) {
  EXPECT_EQ(kfd::GetVersion::kCmd, 0x80084b01);
  EXPECT_EQ(kfd::CreateQueue::kCmd, 0xc0604b02);
  EXPECT_EQ(kfd::AllocMemoryOfGpu::kCmd, 0xc0284b16);
  EXPECT_EQ(kfd::AcquireVm::kCmd, 0x40084b15);
  EXPECT_EQ(drm::Version::kCmd, 0xc0406400);
  EXPECT_EQ(drm::GemClose::kCmd, 0x40086409);
  EXPECT_EQ(drm::PrimeHandleToFd::kCmd, 0xc00c642d);
  EXPECT_EQ(amdgpu::Info::kCmd, 0x40206445);
  EXPECT_EQ(amdxdna::CreateBo::kNr, 0x43);
  EXPECT_EQ(virtgpu::ResourceCreateBlob::kNr, 0x4a);
}

TEST(IoctlTypes, KnowTheirArgumentAndDescriptor) {
  static_assert(std::is_same_v<kfd::AllocMemoryOfGpu::Args, kfd::kfd_ioctl_alloc_memory_of_gpu_args>);
  static_assert(std::is_same_v<drm::SetMaster::Args, void>);
  static_assert(std::is_same_v<drm::ModeRmfb::Args, std::uint32_t>);
  const IoctlDescriptor& descriptor = amdgpu::GemVa::descriptor();
  EXPECT_STREQ(descriptor.name, "DRM_IOCTL_AMDGPU_GEM_VA");
  EXPECT_STREQ(descriptor.interface, "amdgpu");
  EXPECT_EQ(descriptor.cmd, amdgpu::GemVa::kCmd);
  EXPECT_STREQ(descriptor.args->name, "drm_amdgpu_gem_va");
}

TEST(IoctlTypes, CarryTheDriversAccessFlags) {
  EXPECT_TRUE(drm::GemClose::descriptor().render_allow());
  EXPECT_FALSE(drm::GemFlink::descriptor().render_allow());
  EXPECT_TRUE(has(drm::GemFlink::descriptor().flags, IoctlFlags::kAuth));
  EXPECT_FALSE(drm::AddMap::descriptor().has_handler);
  EXPECT_TRUE(has(amdgpu::Sched::descriptor().flags, IoctlFlags::kMaster));
  EXPECT_TRUE(has(amdxdna::SetState::descriptor().flags, IoctlFlags::kRootOnly));
  EXPECT_FALSE(amdxdna::CreateBo::descriptor().render_allow()) << "accel nodes do not ask for the flag";
  EXPECT_TRUE(has(kfd::CriuOp::descriptor().flags, IoctlFlags::kCheckpointRestore));
  EXPECT_EQ(kfd::AllocMemoryOfGpu::descriptor().flags, IoctlFlags::kNone);
}

TEST(Variants, ShareWhatIsTheSame) {
  namespace linux_6_1 = virtgpu::variants::linux_6_1;
  static_assert(std::is_same_v<linux_6_1::drm_virtgpu_map, virtgpu::drm_virtgpu_map>);
  static_assert(std::is_same_v<linux_6_1::Map, virtgpu::Map>);
  static_assert(!std::is_same_v<linux_6_1::drm_virtgpu_execbuffer, virtgpu::drm_virtgpu_execbuffer>);
  EXPECT_EQ(linux_6_1::Execbuffer::kCmd, 0xc0286442);
  EXPECT_EQ(virtgpu::Execbuffer::kCmd, 0xc0406442);
}

TEST(Variants, OfXdnaDifferInWaitCmdsDirection) {
  EXPECT_EQ(amdxdna::WaitCmd::kDir, Direction::kWrite);
  EXPECT_EQ(amdxdna::variants::rocr_bundled::WaitCmd::kDir, Direction::kReadWrite);
  static_assert(std::is_same_v<amdxdna::variants::linux_7_3::WaitCmd, amdxdna::WaitCmd>);
}

TEST(Variants, OfVhsakmtAreTheTwoEndsOfTheProtocol) {
  EXPECT_EQ(sizeof(vhsakmt::vhsakmt_ccmd_memory_req), 80u);
  EXPECT_EQ(sizeof(vhsakmt::variants::host_mr1568::vhsakmt_ccmd_memory_req), 312u);
  const auto commands = vhsakmt::commands();
  ASSERT_EQ(commands.size(), 6u);
  EXPECT_EQ(commands[0].value, 1u);
  EXPECT_EQ(commands[0].response, nullptr);
  EXPECT_STREQ(commands[1].request->name, "vhsakmt_ccmd_query_info_req");
}

}  // namespace
