// Puts the amdgpu driver and its GPUs into a machine: devices, nodes (/dev/kfd, /dev/dri/*) and sysfs.
//
// Owner: the machine keeps what is made. Units: bytes. Errors: a sentence for the user. Thread-safety: before
// clients arrive. Mirrors: amdgpu_drv.c: amdgpu_pci_probe, kfd_module.c: kfd_init.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/machine.h"
#include "sim/kfd/profile.h"

namespace understudy::kfd {

struct GpuMachineRequest {
  // In the order of their PCI addresses; none: KFD with the CPUs alone.
  std::vector<GpuProfile> gpus;
  // NUMA nodes of the processors, each with its share of cores and memory.
  unsigned cpu_nodes = 1;
  // 0: as many as this host has.
  unsigned cpu_cores = 0;
  std::uint64_t memory_bytes = 0;
};

// Nothing, or why the machine cannot be put together; then it is unchanged.
std::optional<std::string> add_gpus(Machine& machine, GpuMachineRequest request);

}  // namespace understudy::kfd
