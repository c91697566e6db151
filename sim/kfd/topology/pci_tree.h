// The PCI side of sysfs: root ports, bridges and the GPUs behind them, with what the PCI core shows of each.
//
// Owner: stateless; what it adds refers to the GPU, which lives as long as the machine. Units: none. Errors:
// none. Thread-safety: while the machine is built. Mirrors: drivers/pci/pci-sysfs.c, drivers/base/bus.c.
#pragma once

#include <functional>
#include <string>

#include "sim/core/sysfs.h"
#include "sim/kfd/gpu.h"
#include "sim/kfd/topology/graph.h"

namespace understudy::kfd {

// "devices/pci0000:00/0000:00:01.1/.../0000:03:00.0"
std::string pci_directory(const GpuPlacement& placement);

// `add_driver_attributes` adds what amdgpu has in the GPU's directory; runs when somebody looks into it.
void add_pci_device(SysfsTree& sysfs, const Gpu& gpu, const CpuLayout& cpu,
                    std::function<void()> add_driver_attributes);

}  // namespace understudy::kfd
