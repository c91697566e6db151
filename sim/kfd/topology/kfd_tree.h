// The sysfs entries of /dev/kfd: its device directory with the topology below it, and its class link.
//
// Owner: stateless; what it adds refers to the graph, which lives as long as the tree. Units: as KFD shows
// them. Errors: none. Thread-safety: while the machine is built. Mirrors: kfd_topology.c
// (kfd_build_sysfs_node_tree, node_show, mem_show, iolink_show), kfd_chardev.c.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "sim/core/sysfs.h"
#include "sim/kfd/topology/graph.h"

namespace understudy::kfd {

inline constexpr const char* kKfdDirectory = "devices/virtual/kfd/kfd";

void add_kfd_device(SysfsTree& sysfs, dev_t device_number);
void add_topology(SysfsTree& sysfs, std::shared_ptr<const TopologyGraph> graph, const CpuLayout& cpu);

}  // namespace understudy::kfd
