#include "sim/xdna/assemble.h"

#include <fmt/format.h>

#include "sim/drm/node.h"
#include "sim/xdna/npu.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

constexpr unsigned kFirstBus = 0xc4;

std::string pci_name(const NpuPlacement& place) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", place.pci_domain, place.pci_bus, place.pci_device,
                     place.pci_function);
}

void add_sysfs(SysfsTree& sysfs, const Npu& npu) {
  const NpuProfile& profile = npu.profile();
  const NpuPlacement& place = npu.placement();
  const std::string slot = pci_name(place);
  const std::string device =
      fmt::format("devices/pci{:04x}:{:02x}/{}", place.pci_domain, place.pci_bus, slot);
  const std::string accel = fmt::format("accel{}", place.index);
  const std::string class_device = device + "/accel/" + accel;

  sysfs.attribute(device + "/vendor", "0x1022\n");
  sysfs.attribute(device + "/device", fmt::format("{:#06x}\n", profile.pci_device));
  sysfs.attribute(device + "/revision", fmt::format("{:#04x}\n", profile.pci_revision));
  sysfs.attribute(device + "/subsystem_vendor", "0x1022\n");
  sysfs.attribute(device + "/subsystem_device", fmt::format("{:#06x}\n", profile.pci_device));
  sysfs.attribute(device + "/class", "0x118000\n");
  sysfs.attribute(device + "/numa_node", "-1\n");
  sysfs.attribute(device + "/enable", "1\n");
  sysfs.attribute(
      device + "/uevent",
      fmt::format("DRIVER=amdxdna\nPCI_CLASS=118000\nPCI_ID=1022:{:04X}\nPCI_SUBSYS_ID=1022:{:04X}\n"
                  "PCI_SLOT_NAME={}\n",
                  profile.pci_device, profile.pci_device, slot));
  sysfs.attribute(device + "/device_type", "0\n");
  sysfs.attribute(device + "/vbnv", profile.vbnv + "\n");
  const auto& firmware = profile.firmware_version;
  sysfs.attribute(device + "/fw_version",
                  fmt::format("{}.{}.{}.{}\n", firmware[0], firmware[1], firmware[2], firmware[3]));
  sysfs.link_to(device + "/subsystem", "bus/pci");
  sysfs.link_to(device + "/driver", "bus/pci/drivers/amdxdna");
  sysfs.link_to("bus/pci/devices/" + slot, device);
  sysfs.link_to("bus/pci/drivers/amdxdna/" + slot, device);

  sysfs.attribute(class_device + "/dev", fmt::format("{}:{}\n", kAccelMajor, place.index));
  sysfs.attribute(class_device + "/uevent",
                  fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=accel/{}\nDEVTYPE=accel_minor\n", kAccelMajor,
                              place.index, accel));
  sysfs.link_to(class_device + "/device", device);
  sysfs.link_to(class_device + "/subsystem", "class/accel");
  sysfs.link_to("class/accel/" + accel, class_device);
  sysfs.link_to(fmt::format("dev/char/{}:{}", kAccelMajor, place.index), class_device);
}

}  // namespace

void add_npus(Machine& machine, const std::vector<NpuProfile>& profiles) {
  for (unsigned index = 0; index < profiles.size(); ++index) {
    const NpuPlacement place{index, 0, kFirstBus + index, 0, 1};
    auto npu = std::make_shared<Npu>(machine, profiles[index], place);
    add_sysfs(machine.sysfs(), *npu);
    npu->register_controls();
    const auto open = [npu](const drm::DrmNode& node,
                            const Caller& caller) -> Result<std::shared_ptr<drm::DrmFile>> {
      return std::shared_ptr<drm::DrmFile>(
          std::make_shared<XdnaFile>(*npu, node.device_number(), caller.client));
    };
    machine.add_node(
        std::make_shared<drm::DrmNode>(npu, drm::NodeType::kAccel, npu->placement().index, open));
    machine.keep(npu);
  }
  if (!profiles.empty()) {
    machine.sysfs().attribute("module/amdxdna/initstate", "live\n");
    machine.sysfs().attribute("module/amdxdna/refcnt", "0\n");
  }
}

}  // namespace understudy::xdna
