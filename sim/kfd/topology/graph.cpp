#include "sim/kfd/topology/graph.h"

#include <algorithm>

#include "uapi/kfd_sysfs.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd_sysfs;

constexpr std::uint32_t kFirstSimdId = 0x80001000;  // kfd_crat.c: gpu_processor_id_low
constexpr unsigned kPcieWeight = 20;
constexpr unsigned kXgmiWeight = 15;
// SLIT distance of another socket.
constexpr unsigned kCpuWeight = 32;

// kfd_topology.c: rec_sdma_eng_map: which engine of a gfx942 to use from one place in a hive of eight to
// another.
constexpr unsigned kFullHiveSize = 8;
constexpr unsigned kFullHiveXgmiEngines = 14;
constexpr unsigned kFullHiveEngines[kFullHiveSize][kFullHiveSize] = {
    {0, 14, 12, 2, 4, 8, 10, 6}, {14, 0, 2, 10, 8, 4, 6, 12}, {10, 2, 0, 12, 14, 6, 4, 8},
    {2, 12, 10, 0, 6, 14, 8, 4}, {4, 8, 14, 6, 0, 10, 12, 2}, {8, 4, 6, 14, 12, 0, 2, 10},
    {10, 6, 4, 8, 12, 2, 0, 14}, {6, 12, 8, 4, 2, 10, 14, 0}};

// One lane or all of them, at the slowest or the fastest rate (amdgpu_amdkfd_get_pcie_bandwidth_mbytes).
unsigned pcie_bandwidth_mbs(unsigned generation, unsigned lanes) {
  constexpr unsigned kMegabitsPerLane[] = {2500, 5000, 8000, 16000, 32000};
  return lanes * kMegabitsPerLane[generation - 1] / 8;
}

std::uint32_t bits(unsigned first, unsigned count) {
  return ((std::uint32_t{1} << count) - 1) << first;
}

// Links of `to` that lead back.
template <typename Visit>
void for_each_inbound(std::vector<IoLink>& links_of_peer, const IoLink& outbound, Visit visit) {
  for (IoLink& inbound : links_of_peer) {
    if (inbound.node_to == outbound.node_from) visit(inbound);
  }
}

// kfd_set_iolink_non_coherent.
void set_non_coherent(const TopologyNode& peer, IoLink& outbound, IoLink& inbound) {
  if (inbound.type != HSA_IOLINK_TYPE_PCIEXPRESS) return;
  inbound.flags |= HSA_IOLINK_FLAGS_NON_COHERENT;
  if (peer.gpu != nullptr) outbound.flags |= HSA_IOLINK_FLAGS_NON_COHERENT;
}

// kfd_set_recommended_sdma_engines.
void set_recommended_sdma_engines(const TopologyNode& node, const TopologyNode& peer, IoLink& outbound,
                                  IoLink& inbound) {
  const GpuPlacement& from = node.gpu->placement();
  const auto engines = static_cast<unsigned>(node.gpu->profile().property("num_sdma_engines"));
  const auto xgmi_engines = static_cast<unsigned>(node.gpu->profile().property("num_sdma_xgmi_engines"));
  if (peer.gpu != nullptr && from.hive_size == kFullHiveSize && xgmi_engines >= kFullHiveXgmiEngines) {
    const GpuPlacement& to = peer.gpu->placement();
    outbound.recommended_sdma_engines = bits(kFullHiveEngines[from.index_in_hive][to.index_in_hive], 1);
    inbound.recommended_sdma_engines = bits(kFullHiveEngines[to.index_in_hive][from.index_in_hive], 1);
    return;
  }
  const bool by_xgmi = peer.gpu != nullptr && outbound.type == HSA_IOLINK_TYPE_XGMI && xgmi_engines > 0;
  const std::uint32_t mask = by_xgmi ? bits(engines, xgmi_engines) : bits(0, engines);
  outbound.recommended_sdma_engines |= mask;
  inbound.recommended_sdma_engines |= mask;
}

// The way along both links.
IoLink chained(IoLink first, const IoLink& second) {
  first.weight += second.weight;
  first.min_bandwidth_mbs = std::min(first.min_bandwidth_mbs, second.min_bandwidth_mbs);
  first.max_bandwidth_mbs = std::min(first.max_bandwidth_mbs, second.max_bandwidth_mbs);
  return first;
}

const IoLink* link_between(const TopologyNode& from, unsigned to) {
  const auto found = std::find_if(from.io_links.begin(), from.io_links.end(),
                                  [to](const IoLink& link) { return link.node_to == to; });
  return found == from.io_links.end() ? nullptr : &*found;
}

IoLink reversed(IoLink link) {
  std::swap(link.node_from, link.node_to);
  return link;
}

}  // namespace

TopologyGraph::TopologyGraph(const CpuLayout& cpu, const std::vector<std::shared_ptr<Gpu>>& gpus,
                             const Draw* seed_order)
    : next_simd_id_(kFirstSimdId) {
  add_cpus(cpu);
  for (const auto& gpu : gpus) add_gpu(*gpu);
  if (seed_order != nullptr) shuffle_links(*seed_order);
}

void TopologyGraph::add_cpus(const CpuLayout& cpu) {
  cpu_node_count_ = cpu.node_count;
  unsigned next_core = 0;
  for (unsigned i = 0; i < cpu.node_count; ++i) {
    TopologyNode& node = nodes_.emplace_back();
    node.core_id_base = next_core;
    node.core_count = cpu.core_count / cpu.node_count + (i < cpu.core_count % cpu.node_count ? 1 : 0);
    node.memory_bytes = cpu.memory_bytes / cpu.node_count;
    node.lists_cpu_cache = i >= cpu.host_node_count;
    next_core += node.core_count;
    for (unsigned peer = 0; peer < cpu.node_count; ++peer) {
      if (peer == i) continue;
      IoLink link{HSA_IOLINK_TYPE_HYPERTRANSPORT, i, peer, kCpuWeight};
      node.io_links.push_back(link);
    }
  }
  ++generation_;
}

void TopologyGraph::add_gpu(const Gpu& gpu) {
  const unsigned number = static_cast<unsigned>(nodes_.size());
  TopologyNode& node = nodes_.emplace_back();
  node.gpu = &gpu;
  node.simd_id_base = next_simd_id_;
  const ComputeLayout& compute = gpu.profile().compute;
  next_simd_id_ += compute.arrays_per_xcc() * compute.cus_per_array;
  link_to_cpu(number);
  link_to_hive(number);
  add_indirect_links(number);
  add_peer_links(number);
  fill_link_flags(number);
  ++generation_;
}

// kfd_fill_gpu_direct_io_link_to_cpu. The CPU reaches the GPU's memory only through a large BAR.
void TopologyGraph::link_to_cpu(unsigned node) {
  const Gpu& gpu = *nodes_[node].gpu;
  const PciProfile& pci = gpu.profile().pci;
  IoLink link{HSA_IOLINK_TYPE_PCIEXPRESS, node, gpu.placement().numa_node, kPcieWeight};
  link.min_bandwidth_mbs = pcie_bandwidth_mbs(1, 1);
  link.max_bandwidth_mbs = pcie_bandwidth_mbs(pci.link_generation, pci.link_width);
  nodes_[node].io_links.push_back(link);
  if (gpu.is_large_bar()) nodes_[link.node_to].io_links.push_back(reversed(link));
}

// kfd_fill_gpu_xgmi_link_to_gpu: to the members of the hive that were there before, and back.
void TopologyGraph::link_to_hive(unsigned node) {
  const Gpu& gpu = *nodes_[node].gpu;
  if (gpu.placement().hive_id == 0) return;
  const XgmiProfile& xgmi = gpu.profile().xgmi;
  for (unsigned peer = cpu_node_count_; peer < node; ++peer) {
    if (nodes_[peer].gpu->placement().hive_id != gpu.placement().hive_id) continue;
    IoLink link{HSA_IOLINK_TYPE_XGMI, node, peer, kXgmiWeight};
    link.min_bandwidth_mbs = xgmi.link_bandwidth_mbs;
    link.max_bandwidth_mbs = xgmi.links_per_peer * xgmi.link_bandwidth_mbs;
    nodes_[node].io_links.push_back(link);
    nodes_[peer].io_links.push_back(reversed(link));
  }
}

// kfd_create_indirect_link_prop: to the CPU nodes behind the one the GPU is at.
void TopologyGraph::add_indirect_links(unsigned node) {
  const IoLink to_own_cpu = nodes_[node].io_links.front();
  for (unsigned cpu = 0; cpu < cpu_node_count_; ++cpu) {
    const IoLink* between = link_between(nodes_[cpu], to_own_cpu.node_to);
    if (between == nullptr) continue;
    IoLink link = chained(to_own_cpu, *between);
    link.node_to = cpu;
    nodes_[node].p2p_links.push_back(link);
    if (nodes_[node].gpu->is_large_bar()) nodes_[cpu].p2p_links.push_back(reversed(link));
  }
}

// kfd_add_peer_prop: `from` reaches `to` over PCIe if all of its memory is behind the BAR.
void TopologyGraph::add_peer_link(unsigned from, unsigned to) {
  if (!nodes_[to].gpu->is_large_bar()) return;
  const IoLink& first = nodes_[to].io_links.front();
  const IoLink& second = nodes_[from].io_links.front();
  IoLink link = chained(first, second);
  // The driver takes the second way's bandwidth twice.
  link.max_bandwidth_mbs = second.max_bandwidth_mbs;
  if (first.node_to != second.node_to) {
    if (const IoLink* between = link_between(nodes_[first.node_to], second.node_to))
      link = chained(link, *between);
  }
  link.node_from = from;
  link.node_to = to;
  nodes_[from].p2p_links.push_back(link);
}

// kfd_dev_create_p2p_links, with CONFIG_HSA_AMD_P2P.
void TopologyGraph::add_peer_links(unsigned node) {
  const std::uint64_t hive_id = nodes_[node].gpu->placement().hive_id;
  for (unsigned peer = cpu_node_count_; peer < node; ++peer) {
    const std::uint64_t peer_hive_id = nodes_[peer].gpu->placement().hive_id;
    if (peer_hive_id != 0 && peer_hive_id == hive_id) continue;
    add_peer_link(peer, node);
    add_peer_link(node, peer);
  }
}

// kfd_fill_iolink_non_crat_info. Runs when all links of the node are there, so that a link between GPUs
// copied the state its parts had before.
void TopologyGraph::fill_link_flags(unsigned node) {
  for (IoLink& link : nodes_[node].io_links) {
    link.flags = HSA_IOLINK_FLAGS_ENABLED;
    TopologyNode& peer = nodes_[link.node_to];
    for_each_inbound(peer.io_links, link, [&](IoLink& inbound) {
      inbound.flags = HSA_IOLINK_FLAGS_ENABLED;
      set_non_coherent(peer, link, inbound);
      set_recommended_sdma_engines(nodes_[node], peer, link, inbound);
    });
  }
  for (IoLink& link : nodes_[node].p2p_links) {
    link.flags = HSA_IOLINK_FLAGS_ENABLED;
    TopologyNode& peer = nodes_[link.node_to];
    for_each_inbound(peer.p2p_links, link, [&](IoLink& inbound) {
      inbound.flags = HSA_IOLINK_FLAGS_ENABLED;
      set_non_coherent(peer, link, inbound);
    });
  }
}

void TopologyGraph::shuffle_links(const Draw& draw) {
  for (unsigned number = cpu_node_count_; number < nodes_.size(); ++number) {
    std::vector<IoLink>& links = nodes_[number].io_links;
    for (std::size_t i = links.size() - 1; i > 1; --i)
      std::swap(links[i], links[1 + draw("link order", number << 16 | i) % i]);
  }
}

}  // namespace understudy::kfd
