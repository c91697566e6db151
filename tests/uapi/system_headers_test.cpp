// Compares the generated interfaces with the kernel headers installed on this machine. Those are of another
// version: what both know must be the same, except where a newer kernel changed it, which is listed here.
#include <gtest/gtest.h>

#include <algorithm>

#include "interfaces.h"
#include "system_header.h"

namespace {

struct KnownDifference {
  const char* interface;
  const char* name;
  const char* reason;
};

constexpr KnownDifference kKnownDifferences[] = {
    {"kfd", "KFD_IOCTL_MINOR_VERSION", "grows with every addition"},
    {"kfd", "AMDKFD_COMMAND_END", "grows with every ioctl"},
    {"kfd_rocm", "KFD_IOCTL_MINOR_VERSION", "grows with every addition"},
    {"kfd_rocm", "AMDKFD_COMMAND_END", "grows with every ioctl"},
    {"kfd_sysfs", "HSA_CAP_RESERVED", "shrinks with every capability"},
    {"amdgpu", "AMDGPU_GEM_DOMAIN_MASK", "the doorbell domain came after 6.1"},
    {"amdgpu", "AMDGPU_HW_IP_NUM", "the VPE engine came after 6.1"},
    {"virtgpu", "VIRTGPU_EXECBUF_FLAGS", "libdrm 2.4.114 does not know the ring index flag"},
    {"virtgpu::variants::linux_6_1", "VIRTGPU_EXECBUF_FLAGS",
     "libdrm 2.4.114 does not know the ring index flag"},
};

bool is_known(const std::string& interface, const std::string& name) {
  return std::ranges::any_of(kKnownDifferences, [&](const auto& known) {
    return known.interface == interface && known.name == name;
  });
}

struct Comparison {
  const char* interface;
  SystemHeader (*header)();
};

class SystemHeaders : public testing::TestWithParam<Comparison> {
 protected:
  void SetUp() override {
    if (header.header.empty()) GTEST_SKIP() << "no header of this interface is installed";
  }
  const Interface ours = interface(GetParam().interface);
  const SystemHeader header = GetParam().header();
};

INSTANTIATE_TEST_SUITE_P(
    Interfaces, SystemHeaders,
    testing::Values(Comparison{"kfd", system_kfd}, Comparison{"kfd_rocm", system_kfd_rocm},
                    Comparison{"kfd_sysfs", system_kfd_sysfs}, Comparison{"drm", system_drm},
                    Comparison{"drm::variants::libdrm_2_4_114", system_drm},
                    Comparison{"amdgpu", system_amdgpu}, Comparison{"amdxdna", system_amdxdna},
                    Comparison{"virtgpu", system_virtgpu},
                    Comparison{"virtgpu::variants::linux_6_1", system_virtgpu},
                    Comparison{"virtio_gpu_wire", system_virtio_gpu_wire}),
    [](const auto& info) {
      std::string name = info.param.interface;
      std::ranges::replace(name, ':', '_');
      return name;
    });

// Returns how many fields both have.
std::size_t compare_fields(const SystemHeader& header, const uapi::StructDescriptor& type,
                           const std::string& path, std::size_t origin) {
  std::size_t compared = 0;
  for (const uapi::FieldDescriptor& field : type.fields) {
    const std::string name = path + "." + field.name;
    const auto theirs = header.fields.find(name);
    if (theirs != header.fields.end()) {
      ++compared;
      EXPECT_EQ(origin + field.offset, theirs->second.offset) << name;
      EXPECT_EQ(field.size(), theirs->second.size) << name;
    }
    const bool unnamed_type = field.nested != nullptr && field.nested->name == name;
    if (unnamed_type) compared += compare_fields(header, *field.nested, name, origin + field.offset);
  }
  return compared;
}

TEST_P(SystemHeaders, StructsStartTheSameWay) {
  std::size_t compared = 0;
  for (const uapi::StructDescriptor& type : ours.structs) {
    const auto theirs = header.structs.find(type.name);
    if (theirs == header.structs.end()) continue;
    EXPECT_GE(type.size, theirs->second) << type.name << " is longer in <" << header.header << ">";
    compared += compare_fields(header, type, type.name, 0);
  }
  EXPECT_EQ(compared == 0, ours.structs.empty()) << "nothing was compared";
}

TEST_P(SystemHeaders, ConstantsHaveTheSameValues) {
  std::size_t compared = 0;
  for (const uapi::ConstantDescriptor& constant : ours.constants) {
    const auto theirs = header.constants.find(constant.name);
    if (theirs == header.constants.end() || is_known(ours.name, constant.name)) continue;
    ++compared;
    const std::uint64_t mask = theirs->second.size == 8 ? ~0ull : 0xffffffffull;
    EXPECT_EQ(constant.value & mask, theirs->second.value & mask) << constant.name;
  }
  EXPECT_GT(compared, 0u) << "nothing was compared";
}

TEST_P(SystemHeaders, IoctlsHaveTheSameNumberTypeAndDirection) {
  constexpr std::uint64_t kAllButSize = 0xc000ffff;
  for (const uapi::IoctlDescriptor& ioctl : ours.ioctls) {
    const auto theirs = header.constants.find(ioctl.name);
    if (theirs == header.constants.end()) continue;
    EXPECT_EQ(ioctl.cmd & kAllButSize, theirs->second.value & kAllButSize) << ioctl.name;
  }
}

TEST(KnownDifferences, NameConstantsThatExist) {
  for (const KnownDifference& known : kKnownDifferences) {
    EXPECT_TRUE(std::ranges::any_of(interface(known.interface).constants, [&](const auto& constant) {
      return constant.name == std::string(known.name);
    })) << known.name;
  }
}

}  // namespace
