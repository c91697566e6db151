// What amdgpu shows in a GPU's PCI directory besides power management: memory, identity, firmware, RAS, xGMI,
// partitions.
//
// Owner: stateless; refers to the GPU, which lives as long as the machine. Units: bytes. Errors: none.
// Thread-safety: attributes may be read at any time. Mirrors: amdgpu_vram_mgr.c, amdgpu_gtt_mgr.c,
// amdgpu_ucode.c, amdgpu_ras.c, amdgpu_xgmi.c, amdgpu_gfx.c, amdgpu_fru_eeprom.c (their DEVICE_ATTRs).
#pragma once

#include <string>

#include "sim/core/sysfs.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {

void add_amdgpu_attributes(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu);

}  // namespace understudy::kfd
