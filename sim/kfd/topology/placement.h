// Where GPUs sit in a machine: topology node, gpu_id, PCI address, DRM minors, xGMI hive.
//
// Owner: stateless. Units: none. Errors: none; the caller has limited the counts (kMaxGpus, kMaxCpuNodes).
// Thread-safety: stateless. Mirrors: kfd_topology.c: kfd_generate_gpu_id, amdgpu_xgmi.c:
// amdgpu_xgmi_add_device, PCI enumeration.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kfd/gpu.h"

namespace understudy::kfd {

inline constexpr unsigned kMaxGpus = 64;  // render minors 128..191
inline constexpr unsigned kMaxCpuNodes = 8;

// Numbers that the machine's seed decides (Machine::random).
using Draw = std::function<std::uint64_t(std::string_view purpose, std::uint64_t index)>;

// GPUs are spread over the NUMA nodes in order; neighbours of one model form hives. `first_drm_minor`: DRM
// devices that the machine already has.
std::vector<GpuPlacement> place_gpus(const std::vector<GpuProfile>& profiles, unsigned cpu_node_count,
                                     unsigned first_drm_minor, const Draw& draw);

// "0000:03:00.0"
std::string pci_slot_name(unsigned domain, unsigned bus, unsigned device, unsigned function);
std::string pci_slot_name(const GpuPlacement& placement);
// PCI_DEVID: bus, device and function in one number.
std::uint32_t pci_location_id(const GpuPlacement& placement);

}  // namespace understudy::kfd
