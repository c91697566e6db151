// The DRM minors of a GPU in sysfs: card and render directories below its PCI device, class links, dev/char.
//
// Owner: stateless. Units: none. Errors: none. Thread-safety: while the machine is built. Mirrors:
// drm_sysfs.c.
#pragma once

#include <string>

#include "sim/core/sysfs.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {

inline constexpr unsigned kDrmMajor = 226;

// Links that lead to the device.
void add_drm_links(SysfsTree& sysfs, const Gpu& gpu);
// drm/ in the PCI device's directory.
void add_drm_minors(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu);

}  // namespace understudy::kfd
