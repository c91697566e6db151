// PCI configuration space of simulated GPUs and bridges, as user space reads it from sysfs.
//
// Owner: stateless. Units: bytes; link speeds in generations. Errors: none. Thread-safety: stateless.
// Mirrors: the PCI and PCI Express specifications as far as pci_regs.h names them.
#pragma once

#include <cstdint>
#include <string>

#include "sim/kfd/gpu.h"

namespace understudy::kfd {

struct PciBars {
  std::uint64_t vram_address = 0, vram_size_bytes = 0;  // BAR 0
  std::uint64_t doorbell_address = 0;                   // BAR 2
  std::uint32_t registers_address = 0;                  // BAR 5
  static constexpr std::uint64_t kDoorbellSizeBytes = 2 << 20;
  static constexpr std::uint32_t kRegistersSizeBytes = 1 << 20;
};

// Where the GPU's apertures lie in the simulated machine's address space.
PciBars bars_of(const Gpu& gpu);

struct PciBridge {
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  unsigned port_type = 0;  // PCI_EXP_TYPE_*
  unsigned primary_bus = 0, secondary_bus = 0, subordinate_bus = 0;
};

// 256 bytes each.
std::string gpu_config(const Gpu& gpu);
std::string bridge_config(const PciBridge& bridge, unsigned link_generation, unsigned link_width);

}  // namespace understudy::kfd
