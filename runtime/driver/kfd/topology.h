// The KFD topology as sysfs shows it: numbered node folders full of "key value" lines. A snapshot is taken
// when the driver opens; if generation_id changed meanwhile it is taken again.
//
// Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (which writes these files).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/expected.h"
#include "runtime/driver/device_info.h"

namespace hsa_rt::kfd {

// One "properties" file.
class Properties {
 public:
  static Result<Properties> read(const std::string& path);
  uint64_t get(const std::string& key, uint64_t otherwise = 0) const;
  uint32_t get32(const std::string& key, uint32_t otherwise = 0) const {
    return static_cast<uint32_t>(get(key, otherwise));
  }

 private:
  std::map<std::string, uint64_t> values_;
};

struct TopologyNode {
  uint32_t node_id = 0;
  uint32_t gpu_id = 0;  // 0: a CPU node
  std::string name;     // the kernel's name of the chip
  Properties properties;
  std::vector<Properties> memory_banks;
  std::vector<Properties> caches;
  std::vector<Properties> links;  // io_links, then p2p_links
};

// EPERM nodes (hidden by a device cgroup) are left out. Any other unreadable file fails the snapshot.
Result<std::vector<TopologyNode>> read_topology(const std::string& root = "/sys/class/kfd/kfd/topology");

DeviceInfo describe_cpu(const TopologyNode& node);
DeviceInfo describe_gpu(const TopologyNode& node, const std::vector<TopologyNode>& all);

}  // namespace hsa_rt::kfd
