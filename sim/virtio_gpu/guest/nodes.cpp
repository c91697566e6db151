#include "sim/virtio_gpu/guest/nodes.h"

#include <fmt/format.h>

#include "sim/drm/node.h"
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {
namespace {

constexpr unsigned kVirtioVendor = 0x1af4;
constexpr unsigned kVirtioGpuPciDevice = 0x1050;  // 0x1040 and the virtio id
constexpr std::size_t kTaskCommLength = 15;

void add_pci_device(SysfsTree& sysfs, const std::string& slot, const std::string& directory) {
  const std::string vendor = fmt::format("{:#06x}\n", kVirtioVendor);
  sysfs.attribute(directory + "/vendor", vendor);
  sysfs.attribute(directory + "/device", fmt::format("{:#06x}\n", kVirtioGpuPciDevice));
  sysfs.attribute(directory + "/subsystem_vendor", vendor);
  sysfs.attribute(directory + "/subsystem_device", "0x1100\n");
  sysfs.attribute(directory + "/revision", "0x01\n");
  sysfs.attribute(directory + "/class", "0x038000\n");
  sysfs.attribute(directory + "/numa_node", "-1\n");
  sysfs.attribute(directory + "/enable", "1\n");
  sysfs.attribute(directory + "/uevent",
                  fmt::format("DRIVER=virtio-pci\nPCI_CLASS=38000\nPCI_ID={0:04X}:{1:04X}\n"
                              "PCI_SUBSYS_ID={0:04X}:1100\nPCI_SLOT_NAME={2}\n",
                              kVirtioVendor, kVirtioGpuPciDevice, slot));
  sysfs.link_to(directory + "/subsystem", "bus/pci");
  sysfs.link_to(directory + "/driver", "bus/pci/drivers/virtio-pci");
  sysfs.link_to("bus/pci/devices/" + slot, directory);
  sysfs.link_to("bus/pci/drivers/virtio-pci/" + slot, directory);
}

// One digit per feature bit, lowest first.
std::string feature_text(std::uint64_t features) {
  std::string text;
  for (unsigned bit = 0; bit < 64; ++bit) text.push_back((features >> bit & 1) != 0 ? '1' : '0');
  return text + "\n";
}

void add_virtio_device(SysfsTree& sysfs, const std::string& pci_directory, const std::string& name,
                       std::uint64_t features) {
  const std::string directory = pci_directory + "/" + name;
  sysfs.attribute(directory + "/device", "0x0010\n");
  sysfs.attribute(directory + "/vendor", fmt::format("{:#06x}\n", kVirtioVendor));
  sysfs.attribute(directory + "/status", "0x0000000f\n");
  sysfs.attribute(directory + "/features", feature_text(features));
  sysfs.attribute(directory + "/modalias", "virtio:d00000010v00001AF4\n");
  sysfs.attribute(directory + "/uevent", "DRIVER=virtio_gpu\nMODALIAS=virtio:d00000010v00001AF4\n");
  sysfs.link_to(directory + "/subsystem", "bus/virtio");
  sysfs.link_to(directory + "/driver", "bus/virtio/drivers/virtio_gpu");
  sysfs.link_to("bus/virtio/devices/" + name, directory);
  sysfs.link_to("bus/virtio/drivers/virtio_gpu/" + name, directory);
}

void add_drm_minor(SysfsTree& sysfs, const std::string& pci_directory, const std::string& name,
                   unsigned minor) {
  const std::string directory = pci_directory + "/drm/" + name;
  sysfs.attribute(directory + "/dev", fmt::format("{}:{}\n", kDrmMajor, minor));
  sysfs.attribute(
      directory + "/uevent",
      fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=dri/{}\nDEVTYPE=drm_minor\n", kDrmMajor, minor, name));
  sysfs.link_to(directory + "/device", pci_directory);
  sysfs.link_to(directory + "/subsystem", "class/drm");
  sysfs.link_to("class/drm/" + name, directory);
  sysfs.link_to(fmt::format("dev/char/{}:{}", kDrmMajor, minor), directory);
}

}  // namespace

unsigned next_card_number(const Machine& machine) {
  unsigned number = 0;
  while (machine.node(fmt::format("dri/card{}", number)) != nullptr) ++number;
  return number;
}

void add_nodes(Machine& machine, const std::shared_ptr<VirtioGpuDevice>& gpu, unsigned card_number) {
  const unsigned render_minor = kFirstRenderMinor + card_number;
  const std::string card = fmt::format("card{}", card_number);
  const std::string render = fmt::format("renderD{}", render_minor);
  const auto make_file = [gpu](const drm::DrmNode& node,
                               const Caller& caller) -> Result<std::shared_ptr<drm::DrmFile>> {
    return std::shared_ptr<drm::DrmFile>(
        std::make_shared<VirtioGpuFile>(*gpu, node.type(), node.path(), node.device_number(),
                                        caller.client->name().substr(0, kTaskCommLength)));
  };
  machine.add_node(std::make_shared<drm::DrmNode>(gpu, drm::NodeType::kPrimary, card_number, make_file));
  machine.add_node(std::make_shared<drm::DrmNode>(gpu, drm::NodeType::kRender, render_minor, make_file));

  SysfsTree& sysfs = machine.sysfs();
  const std::string slot = gpu->pci_slot();
  const std::string directory = "devices/pci0000:00/" + slot;
  add_pci_device(sysfs, slot, directory);
  add_virtio_device(sysfs, directory, fmt::format("virtio{}", card_number),
                    gpu->device_model().offered_features());
  add_drm_minor(sysfs, directory, card, card_number);
  add_drm_minor(sysfs, directory, render, render_minor);
  sysfs.attribute("class/drm/version", "drm 1.1.0 20060810\n");
  sysfs.attribute("module/virtio_gpu/initstate", "live\n");
  sysfs.attribute("module/virtio_gpu/refcnt", "0\n");
  sysfs.link_to("module/virtio_gpu/drivers/virtio:virtio_gpu", "bus/virtio/drivers/virtio_gpu");
}

}  // namespace understudy::virtio_gpu
