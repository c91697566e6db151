// Puts NPUs into a machine: device, /dev/accel node, PCI and class entries in sysfs.
//
// Owner: the machine keeps what is made. Units: none. Errors: none; profiles are checked when loaded.
// Thread-safety: before clients arrive. Mirrors: amdxdna_pci_drv.c: amdxdna_probe; amdxdna_sysfs.c.
#pragma once

#include <vector>

#include "sim/core/machine.h"
#include "sim/xdna/profile.h"

namespace understudy::xdna {

inline constexpr unsigned kAccelMajor = 261;

void add_npus(Machine& machine, const std::vector<NpuProfile>& profiles);

}  // namespace understudy::xdna
