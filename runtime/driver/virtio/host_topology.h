// The topology of the host, as its KFD library hands it over: what sysfs would say there, in structs.
#pragma once

#include <vector>

#include "runtime/base/expected.h"
#include "runtime/driver/amdgpu/topology_node.h"

namespace hsa_rt::virtio {

class HostChannel;

Result<std::vector<amdgpu::TopologyNode>> read_host_topology(HostChannel& channel);

}  // namespace hsa_rt::virtio
