// Topology: what the host's KFD says about its nodes, in the library's structs.
//
// Owner: HostThunk. Units: as the library's. Errors: read_topology: the errno of a host without KFD; look-ups
// return null. Thread-safety: immutable once read. Mirrors: libhsakmt topology.c.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/core/result.h"
#include "sim/virtio_gpu/rocm/host/host_process.h"
#include "sim/virtio_gpu/rocm/thunk/status.h"

namespace understudy::virtio_gpu {

struct TopologyNode {
  hsa::HsaNodeProperties properties{};
  std::vector<hsa::HsaMemoryProperties> memory;
  std::vector<hsa::HsaCacheProperties> caches;
  std::vector<hsa::HsaIoLinkProperties> links;
  // What the library has no field for: cwsr_size, ctl_stack_size.
  std::map<std::string, std::uint64_t> raw;

  bool is_gpu() const { return properties.KFDGpuID != 0; }
  std::uint32_t gpu_id() const { return properties.KFDGpuID; }
  // 0xMMmmss, as the library compares versions.
  std::uint32_t gfx_version() const;
  std::uint64_t raw_value(const std::string& key) const;
};

struct Topology {
  hsa::HsaSystemProperties system{};
  std::vector<TopologyNode> nodes;

  const TopologyNode* node(std::uint64_t id) const { return id < nodes.size() ? &nodes[id] : nullptr; }
  const TopologyNode* gpu(std::uint32_t gpu_id) const;
  // In the order of the nodes.
  std::vector<const TopologyNode*> gpus() const;
  std::uint32_t node_of_gpu(std::uint32_t gpu_id) const;
};

Result<Topology> read_topology(const HostProcess& process);

}  // namespace understudy::virtio_gpu
