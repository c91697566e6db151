// TopologyGraph: the nodes of KFD's topology and the links between them, put together as the driver does: CPU
// nodes first, then one GPU after the other.
//
// Owner: plain data once built. Units: bandwidth in MB/s. Errors: none. Thread-safety: read-only once built.
// Mirrors: kfd_crat.c (kfd_create_vcrat_image_cpu/gpu, kfd_parse_subtype_iolink), kfd_topology.c
// (kfd_dev_create_p2p_links, kfd_fill_iolink_non_crat_info).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/kfd/gpu.h"
#include "sim/kfd/topology/placement.h"

namespace understudy::kfd {

struct IoLink {
  unsigned type = 0;  // HSA_IOLINK_TYPE_*
  unsigned node_from = 0;
  unsigned node_to = 0;
  unsigned weight = 0;
  unsigned min_bandwidth_mbs = 0;
  unsigned max_bandwidth_mbs = 0;
  std::uint32_t recommended_sdma_engines = 0;  // mask
  std::uint32_t flags = 0;                     // HSA_IOLINK_FLAGS_*
};

// The processors of the machine; spread evenly over the NUMA nodes.
struct CpuLayout {
  unsigned node_count = 1;
  unsigned core_count = 1;
  std::uint64_t memory_bytes = 0;
  unsigned max_clock_mhz = 0;
  // NUMA nodes of this host: of those, user space reads the caches from the host's own sysfs.
  unsigned host_node_count = 1;
};

struct TopologyNode {
  const Gpu* gpu = nullptr;  // null: CPU node
  std::uint32_t simd_id_base = 0;
  unsigned core_id_base = 0;
  unsigned core_count = 0;
  std::uint64_t memory_bytes = 0;
  // A CPU node without a counterpart on the host lists a cache itself, as firmware with a CRAT does;
  // libhsakmt would look for it in /sys/devices/system/node and fail.
  bool lists_cpu_cache = false;
  std::vector<IoLink> io_links;
  std::vector<IoLink> p2p_links;
};

class TopologyGraph {
 public:
  // `seed_order`: shuffles the links of each GPU but the first; without it they keep the driver's order.
  TopologyGraph(const CpuLayout& cpu, const std::vector<std::shared_ptr<Gpu>>& gpus, const Draw* seed_order);

  const std::vector<TopologyNode>& nodes() const { return nodes_; }
  // As often as the driver has added a set of nodes.
  unsigned generation() const { return generation_; }

 private:
  void add_cpus(const CpuLayout& cpu);
  void add_gpu(const Gpu& gpu);
  void link_to_cpu(unsigned node);
  void link_to_hive(unsigned node);
  void add_indirect_links(unsigned node);
  void add_peer_link(unsigned from, unsigned to);
  void add_peer_links(unsigned node);
  void fill_link_flags(unsigned node);
  void shuffle_links(const Draw& draw);

  std::vector<TopologyNode> nodes_;
  unsigned cpu_node_count_ = 0;
  std::uint32_t next_simd_id_;
  unsigned generation_ = 0;
};

}  // namespace understudy::kfd
