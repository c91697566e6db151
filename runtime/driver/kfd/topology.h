// The KFD topology as sysfs shows it: numbered node folders full of "key value" lines. A snapshot is taken
// when the driver opens; if generation_id changed meanwhile it is taken again.
//
// Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (which writes these files).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/expected.h"
#include "runtime/driver/amdgpu/topology_node.h"

namespace hsa_rt::kfd {

using amdgpu::Properties;
using amdgpu::TopologyNode;

// EPERM nodes (hidden by a device cgroup) are left out. Any other unreadable file fails the snapshot.
Result<std::vector<TopologyNode>> read_topology(const std::string& root = "/sys/class/kfd/kfd/topology");

}  // namespace hsa_rt::kfd
