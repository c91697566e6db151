// What amdgpu's power management shows of a GPU: clock levels, load, sensors (hwmon), gpu_metrics. The GPU is
// always idle; nothing written changes that.
//
// Owner: stateless; refers to the GPU, which lives as long as the machine. Units: as in sysfs. Errors: writes
// of what the driver refuses give EINVAL. Thread-safety: attributes may be read and written at any time.
// Mirrors: pm/amdgpu_pm.c.
#pragma once

#include <string>

#include "sim/core/sysfs.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {

void add_power_attributes(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu);

}  // namespace understudy::kfd
