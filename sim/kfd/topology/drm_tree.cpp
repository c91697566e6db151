#include "sim/kfd/topology/drm_tree.h"

#include <fmt/format.h>

#include "sim/kfd/topology/pci_tree.h"

namespace understudy::kfd {
namespace {

struct Minor {
  std::string name;
  unsigned number;
};

std::vector<Minor> minors_of(const Gpu& gpu) {
  const GpuPlacement& placement = gpu.placement();
  return {{fmt::format("card{}", placement.card_minor), placement.card_minor},
          {fmt::format("renderD{}", placement.render_minor), placement.render_minor}};
}

}  // namespace

void add_drm_links(SysfsTree& sysfs, const Gpu& gpu) {
  const std::string directory = pci_directory(gpu.placement()) + "/drm/";
  for (const Minor& minor : minors_of(gpu)) {
    sysfs.link_to("class/drm/" + minor.name, directory + minor.name);
    sysfs.link_to(fmt::format("dev/char/{}:{}", kDrmMajor, minor.number), directory + minor.name);
  }
  sysfs.attribute("class/drm/version", "drm 1.1.0 20060810\n");
}

void add_drm_minors(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu) {
  for (const Minor& minor : minors_of(gpu)) {
    const std::string directory = fmt::format("{}/drm/{}", pci_directory, minor.name);
    sysfs.attribute(directory + "/dev", fmt::format("{}:{}\n", kDrmMajor, minor.number));
    sysfs.attribute(directory + "/uevent",
                    fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=dri/{}\nDEVTYPE=drm_minor\n", kDrmMajor,
                                minor.number, minor.name));
    sysfs.link_to(directory + "/device", pci_directory);
    sysfs.link_to(directory + "/subsystem", "class/drm");
  }
}

}  // namespace understudy::kfd
