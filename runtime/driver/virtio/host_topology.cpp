#include "runtime/driver/virtio/host_topology.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "runtime/driver/virtio/host_channel.h"

namespace hsa_rt::virtio {
namespace {

using amdgpu::Properties;
using amdgpu::TopologyNode;

Properties named(std::initializer_list<std::pair<std::string_view, uint64_t>> values) {
  Properties properties;
  for (const auto& [key, value] : values) properties.set(key, value);
  return properties;
}

// The inverse of what libhsakmt's topology.c made of the host's sysfs.
Properties properties_of(const vhsakmt::HsaNodeProperties& node) {
  const auto& engine = node.EngineId.ui32;
  return named({
      {"cpu_cores_count", node.NumCPUCores},
      {"simd_count", node.NumFComputeCores},
      {"capability", node.Capability.Value},
      {"max_waves_per_simd", node.MaxWavesPerSIMD},
      {"lds_size_in_kb", node.LDSSizeInKB},
      {"wave_front_size", node.WaveFrontSize},
      {"array_count", uint64_t{node.NumShaderBanks} * node.NumArrays},
      {"simd_arrays_per_engine", node.NumArrays},
      {"simd_per_cu", node.NumSIMDPerCU},
      {"gfx_target_version", engine.Major * 10000u + engine.Minor * 100u + engine.Stepping},
      {"fw_version", engine.uCode},
      {"sdma_fw_version", node.uCodeEngineVersions.uCodeSDMA},
      {"vendor_id", node.VendorId},
      {"device_id", node.DeviceId},
      {"location_id", node.LocationId},
      {"domain", node.Domain},
      {"max_engine_clk_fcompute", node.MaxEngineClockMhzFCompute},
      {"max_engine_clk_ccompute", node.MaxEngineClockMhzCCompute},
      {"num_sdma_engines", node.NumSdmaEngines},
      {"num_sdma_xgmi_engines", node.NumSdmaXgmiEngines},
      {"num_xcc", node.NumXcc},
      {"unique_id", node.UniqueID},
  });
}

Properties properties_of(const vhsakmt::HsaMemoryProperties& bank) {
  return named({{"heap_type", bank.HeapType},
                {"size_in_bytes", bank.SizeInBytes},
                {"width", bank.Width},
                {"mem_clk_max", bank.MemoryClockMax}});
}

Properties properties_of(const vhsakmt::HsaCacheProperties& cache) {
  return named({{"level", cache.CacheLevel},
                {"size", cache.CacheSize},
                {"cache_line_size", cache.CacheLineSize},
                {"type", cache.CacheType.Value}});
}

Properties properties_of(const vhsakmt::HsaIoLinkProperties& link) {
  return named({{"type", link.IoLinkType},
                {"node_to", link.NodeTo},
                {"weight", link.Weight},
                {"min_latency", link.MinimumLatency},
                {"max_latency", link.MaximumLatency},
                {"min_bandwidth", link.MinimumBandwidth},
                {"max_bandwidth", link.MaximumBandwidth},
                {"flags", link.Flags.LinkProperty}});
}

template <class Element>
Result<std::vector<Element>> query_elements(HostChannel& channel, const QueryRequest& request, size_t count) {
  std::vector<Element> elements(count);
  QueryAnswer answer{};
  if (count != 0) TRY(channel.query(request, answer, std::as_writable_bytes(std::span(elements))));
  return elements;
}

// The library lists apertures beside the banks of sysfs.
bool is_bank(const vhsakmt::HsaMemoryProperties& memory) {
  return memory.HeapType == vhsakmt::HSA_HEAPTYPE_SYSTEM ||
         memory.HeapType == vhsakmt::HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC ||
         memory.HeapType == vhsakmt::HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE;
}

Result<TopologyNode> read_node(HostChannel& channel, uint32_t node_id) {
  QueryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_NODE_PROP;
  request.NodeID = node_id;
  QueryAnswer answer{};
  TRY(channel.query(request, answer));
  const vhsakmt::HsaNodeProperties& properties = answer.node_props;
  TopologyNode node;
  node.node_id = node_id;
  node.gpu_id = properties.KFDGpuID;
  const std::string_view name(reinterpret_cast<const char*>(properties.AMDName), sizeof(properties.AMDName));
  node.name = name.substr(0, name.find('\0'));
  node.properties = properties_of(properties);

  request = {};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_NOD_MEM_PROP;
  request.node_mem_prop_args = {node_id, properties.NumMemoryBanks};
  for (const auto& bank :
       TRY(query_elements<vhsakmt::HsaMemoryProperties>(channel, request, properties.NumMemoryBanks))) {
    if (is_bank(bank)) node.memory_banks.push_back(properties_of(bank));
  }
  const uint32_t cache_count = std::min<uint32_t>(properties.NumCaches, channel.most_caches());
  request = {};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_NOD_CACHE_PROP;
  request.node_cache_prop_args = {node_id, properties.CComputeIdLo, cache_count, 0};
  for (const auto& cache : TRY(query_elements<vhsakmt::HsaCacheProperties>(channel, request, cache_count))) {
    node.caches.push_back(properties_of(cache));
  }
  request = {};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_NOD_IO_LINK_PROP;
  request.node_io_link_args = {node_id, properties.NumIOLinks};
  for (const auto& link :
       TRY(query_elements<vhsakmt::HsaIoLinkProperties>(channel, request, properties.NumIOLinks))) {
    node.links.push_back(properties_of(link));
  }
  return node;
}

}  // namespace

Result<std::vector<TopologyNode>> read_host_topology(HostChannel& channel) {
  QueryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_SYS_PROP;
  QueryAnswer answer{};
  TRY(channel.query(request, answer));
  std::vector<TopologyNode> nodes;
  for (uint32_t id = 0; id < answer.sys_props.NumNodes; ++id) nodes.push_back(TRY(read_node(channel, id)));
  return nodes;
}

}  // namespace hsa_rt::virtio
