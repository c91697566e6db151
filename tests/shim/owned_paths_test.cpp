#include "sim/door/shim/owned_paths.h"

#include <gtest/gtest.h>

namespace understudy::shim {
namespace {

TEST(OwnedPaths, DeviceNodesAndWhatIsBelowAreTheMachines) {
  for (const char* path :
       {"/dev/kfd", "/dev/dri", "/dev/dri/renderD128", "/dev/accel/accel0", "/proc/modules",
        "/sys/class/kfd/kfd/topology", "/sys/class/drm", "/sys/module/amdgpu/version",
        "/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties",
        "/sys/bus/event_source/devices/amd_iommu_0/type"}) {
    EXPECT_EQ(ownership_of(path).claim, Claim::kWhole) << path;
  }
}

TEST(OwnedPaths, NamesThatOnlyBeginAlikeAreTheHosts) {
  for (const char* path :
       {"/dev/kfd2", "/dev/dri2/x", "/dev", "/dev/null", "/sys/class/drm_dp_aux_dev", "/sys/class",
        "/sys/module/amdgpu_extra", "/proc/modules2", "/sys/devices/system/cpu", "/", ""}) {
    EXPECT_EQ(ownership_of(path).claim, Claim::kNone) << path;
  }
}

TEST(OwnedPaths, DrmAndAccelNumbersAreWholeAndOthersMayBeTheHosts) {
  EXPECT_EQ(ownership_of("/sys/dev/char/226:128/device").claim, Claim::kWhole);
  EXPECT_EQ(ownership_of("/sys/dev/char/261:0").claim, Claim::kWhole);
  const std::string kfd = "/sys/dev/char/236:0/uevent";
  EXPECT_EQ(ownership_of(kfd).claim, Claim::kOverlay);
  EXPECT_EQ(kfd.substr(0, ownership_of(kfd).device_end), "/sys/dev/char/236:0");
}

TEST(OwnedPaths, PciDevicesAreDecidedByTheLastAddressInThePath) {
  const std::string vendor = "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0/drm/card0/vendor";
  EXPECT_EQ(ownership_of(vendor).claim, Claim::kOverlay);
  EXPECT_EQ(vendor.substr(0, ownership_of(vendor).device_end),
            "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0");
  const std::string bus = "/sys/bus/pci/devices/0000:03:00.0/config";
  EXPECT_EQ(bus.substr(0, ownership_of(bus).device_end), "/sys/bus/pci/devices/0000:03:00.0");
  const std::string driver = "/sys/bus/pci/drivers/nvme/new_id";
  EXPECT_EQ(driver.substr(0, ownership_of(driver).device_end), "/sys/bus/pci/drivers/nvme");
}

TEST(OwnedPaths, OnlyPartsOfOwnedPathsMakeARelativePathWorthALook) {
  for (const char* name :
       {"dev", "sys", "proc", "kfd", "dri", "accel", "class", "226:128", "amd_iommu", "pci0000:00"})
    EXPECT_TRUE(occurs_in_owned_paths(name)) << name;
  for (const char* name : {"main.c", "include", "device", "226", "k", "renderD128", "modules.txt"})
    EXPECT_FALSE(occurs_in_owned_paths(name)) << name;
}

}  // namespace
}  // namespace understudy::shim
