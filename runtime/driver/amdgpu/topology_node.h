// A node of the KFD topology, and what it means in the words of DeviceInfo. Named values, whoever read them:
// sysfs has them as text, a virtual machine's host hands them over in structs.
//
// Plain values. Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (which names them).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/driver/device_info.h"

namespace hsa_rt::amdgpu {

// The content of one "properties" file.
class Properties {
 public:
  // "key value" lines.
  static Properties parse(std::string_view text);

  uint64_t get(const std::string& key, uint64_t otherwise = 0) const;
  uint32_t get32(const std::string& key, uint32_t otherwise = 0) const {
    return static_cast<uint32_t>(get(key, otherwise));
  }
  void set(std::string_view key, uint64_t value) { values_.insert_or_assign(std::string(key), value); }

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

DeviceInfo describe_cpu(const TopologyNode& node);
DeviceInfo describe_gpu(const TopologyNode& node, const std::vector<TopologyNode>& all);

}  // namespace hsa_rt::amdgpu
