#include "sim/virtio_gpu/rocm/thunk/topology.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

namespace understudy::virtio_gpu {
namespace {

constexpr std::string_view kRoot = "devices/virtual/kfd/kfd/topology";
constexpr std::uint32_t kScalarRegistersPerCu = 0x4000;  // SGPR_SIZE_PER_CU, bytes

using Properties = std::map<std::string, std::uint64_t>;

// "name value" a line; a line of another kind (sibling_map) ends it.
Properties parse_properties(std::string_view text) {
  Properties properties;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view number = line.substr(space + 1);
    std::uint64_t value = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc{})
      properties.emplace(line.substr(0, space), value);
  }
  return properties;
}

Result<Properties> read_properties(const HostProcess& process, const std::string& path) {
  return parse_properties(TRY(process.read_sysfs(path)));
}

std::uint64_t value_of(const Properties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

// Numbered directories in the order of their numbers.
std::vector<std::string> numbered(const HostProcess& process, const std::string& path) {
  std::vector<std::string> names = process.list_sysfs(path);
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return names;
}

template <typename Struct, typename Field>
struct FieldRow {
  const char* name;
  Field Struct::*field;
};

template <typename Struct, typename Field>
void fill(Struct& into, const Properties& from, std::span<const FieldRow<Struct, Field>> rows) {
  // The thunk's structs are packed to 4 bytes: a field need not be aligned.
  for (const auto& row : rows) {
    const auto value = static_cast<Field>(value_of(from, row.name));
    std::memcpy(static_cast<void*>(&(into.*row.field)), &value, sizeof value);
  }
}

using Node = hsa::HsaNodeProperties;
constexpr FieldRow<Node, std::uint32_t> kNodeFields[] = {
    {"cpu_cores_count", &Node::NumCPUCores},
    {"simd_count", &Node::NumFComputeCores},
    {"mem_banks_count", &Node::NumMemoryBanks},
    {"caches_count", &Node::NumCaches},
    {"cpu_core_id_base", &Node::CComputeIdLo},
    {"simd_id_base", &Node::FComputeIdLo},
    {"max_waves_per_simd", &Node::MaxWavesPerSIMD},
    {"lds_size_in_kb", &Node::LDSSizeInKB},
    {"gds_size_in_kb", &Node::GDSSizeInKB},
    {"wave_front_size", &Node::WaveFrontSize},
    {"simd_arrays_per_engine", &Node::NumArrays},
    {"cu_per_simd_array", &Node::NumCUPerArray},
    {"simd_per_cu", &Node::NumSIMDPerCU},
    {"max_slots_scratch_cu", &Node::MaxSlotsScratchCU},
    {"location_id", &Node::LocationId},
    {"domain", &Node::Domain},
    {"max_engine_clk_fcompute", &Node::MaxEngineClockMhzFCompute},
    {"max_engine_clk_ccompute", &Node::MaxEngineClockMhzCCompute},
    {"num_sdma_engines", &Node::NumSdmaEngines},
    {"num_sdma_xgmi_engines", &Node::NumSdmaXgmiEngines},
    {"num_xcc", &Node::NumXcc},
};
constexpr FieldRow<Node, std::uint8_t> kNodeByteFields[] = {
    {"num_sdma_queues_per_engine", &Node::NumSdmaQueuesPerEngine},
    {"num_cp_queues", &Node::NumCpQueues},
    {"num_gws", &Node::NumGws},
};
constexpr FieldRow<Node, std::uint16_t> kNodeShortFields[] = {
    {"vendor_id", &Node::VendorId},
    {"device_id", &Node::DeviceId},
};
constexpr FieldRow<Node, std::uint64_t> kNodeLongFields[] = {
    {"local_mem_size", &Node::LocalMemSize},
    {"hive_id", &Node::HiveID},
    {"unique_id", &Node::UniqueID},
};

using Cache = hsa::HsaCacheProperties;
constexpr FieldRow<Cache, std::uint32_t> kCacheFields[] = {
    {"processor_id_low", &Cache::ProcessorIdLow},
    {"level", &Cache::CacheLevel},
    {"size", &Cache::CacheSize},
    {"cache_line_size", &Cache::CacheLineSize},
    {"cache_lines_per_tag", &Cache::CacheLinesPerTag},
    {"association", &Cache::CacheAssociativity},
    {"latency", &Cache::CacheLatency},
};

using Link = hsa::HsaIoLinkProperties;
constexpr FieldRow<Link, std::uint32_t> kLinkFields[] = {
    {"type", &Link::IoLinkType},
    {"version_major", &Link::VersionMajor},
    {"version_minor", &Link::VersionMinor},
    {"node_from", &Link::NodeFrom},
    {"node_to", &Link::NodeTo},
    {"weight", &Link::Weight},
    {"min_latency", &Link::MinimumLatency},
    {"max_latency", &Link::MaximumLatency},
    {"min_bandwidth", &Link::MinimumBandwidth},
    {"max_bandwidth", &Link::MaximumBandwidth},
    {"recommended_transfer_size", &Link::RecTransferSize},
    {"recommended_sdma_engine_id_mask", &Link::RecSdmaEngIdMask},
};

template <std::size_t kSize>
void set_text(std::uint8_t (&field)[kSize], std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::memcpy(field, text.data(), std::min(text.size(), kSize - 1));
}

template <std::size_t kSize>
void set_wide_text(std::uint16_t (&field)[kSize], std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (std::size_t i = 0; i < std::min(text.size(), kSize - 1); ++i)
    field[i] = static_cast<unsigned char>(text[i]);
}

// Bytes of vector registers of a compute unit (hsakmt_get_vgpr_size_per_cu).
std::uint32_t vector_registers_per_cu(std::uint32_t gfx_version) {
  const bool matrix_cores = (gfx_version & 0xff'ff00) == 0x9'0400 || gfx_version == 0x9'0008 ||
                            gfx_version == 0x9'000a || (gfx_version & 0xff'ff00) == 0x9'0500;
  if (matrix_cores) return 0x8'0000;
  const bool large = gfx_version == 0xb'0000 || gfx_version == 0xb'0001 || (gfx_version >> 16) == 0xc;
  return large ? 0x6'0000 : 0x4'0000;
}

// gfx_target_version is decimal: major * 10000 + minor * 100 + stepping.
void set_gfx_version(Node& node, std::uint64_t version) {
  node.EngineId.ui32.Major = version / 10000 & 0x3f;
  node.EngineId.ui32.Minor = version / 100 % 100 & 0xff;
  node.EngineId.ui32.Stepping = version % 100 & 0xff;
}

std::vector<hsa::HsaMemoryProperties> read_memory(const HostProcess& process, const std::string& directory) {
  std::vector<hsa::HsaMemoryProperties> banks;
  for (const std::string& bank : numbered(process, directory)) {
    const auto values = read_properties(process, directory + "/" + bank + "/properties");
    if (!values) continue;
    hsa::HsaMemoryProperties properties{};
    properties.HeapType = static_cast<std::uint32_t>(value_of(values.value(), "heap_type"));
    properties.SizeInBytes = value_of(values.value(), "size_in_bytes");
    properties.Flags.MemoryProperty = static_cast<std::uint32_t>(value_of(values.value(), "flags"));
    properties.Width = static_cast<std::uint32_t>(value_of(values.value(), "width"));
    properties.MemoryClockMax = static_cast<std::uint32_t>(value_of(values.value(), "mem_clk_max"));
    banks.push_back(properties);
  }
  return banks;
}

// "sibling_map 1,0,1": a number for each processor that shares the cache.
void read_siblings(std::string_view text, hsa::HsaCacheProperties& cache) {
  constexpr std::string_view kKey = "sibling_map ";
  const std::size_t start = text.find(kKey);
  if (start == std::string_view::npos) return;
  text.remove_prefix(start + kKey.size());
  for (std::uint32_t& sibling : cache.SiblingMap) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sibling);
    if (error != std::errc{}) return;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != ',') return;
    text.remove_prefix(1);
  }
}

std::vector<hsa::HsaCacheProperties> read_caches(const HostProcess& process, const std::string& directory) {
  std::vector<hsa::HsaCacheProperties> caches;
  for (const std::string& name : numbered(process, directory)) {
    const Result<std::string> text = process.read_sysfs(directory + "/" + name + "/properties");
    if (!text) continue;
    const Properties values = parse_properties(text.value());
    hsa::HsaCacheProperties cache{};
    fill<Cache, std::uint32_t>(cache, values, kCacheFields);
    cache.CacheType.Value = static_cast<std::uint32_t>(value_of(values, "type"));
    read_siblings(text.value(), cache);
    caches.push_back(cache);
  }
  return caches;
}

void read_links(const HostProcess& process, const std::string& directory,
                std::vector<hsa::HsaIoLinkProperties>& links) {
  for (const std::string& name : numbered(process, directory)) {
    const auto values = read_properties(process, directory + "/" + name + "/properties");
    if (!values) continue;
    hsa::HsaIoLinkProperties link{};
    fill<Link, std::uint32_t>(link, values.value(), kLinkFields);
    link.Flags.LinkProperty = static_cast<std::uint32_t>(value_of(values.value(), "flags"));
    links.push_back(link);
  }
}

Result<TopologyNode> read_node(const HostProcess& process, const std::string& directory) {
  TopologyNode node;
  node.raw = TRY(read_properties(process, directory + "/properties"));
  Node& properties = node.properties;
  fill<Node, std::uint32_t>(properties, node.raw, kNodeFields);
  fill<Node, std::uint8_t>(properties, node.raw, kNodeByteFields);
  fill<Node, std::uint16_t>(properties, node.raw, kNodeShortFields);
  fill<Node, std::uint64_t>(properties, node.raw, kNodeLongFields);
  properties.Capability.Value = static_cast<std::uint32_t>(node.raw_value("capability"));
  properties.Capability2.Value = static_cast<std::uint32_t>(node.raw_value("capability2"));
  properties.DebugProperties.Value = node.raw_value("debug_prop");
  properties.EngineId.Value = static_cast<std::uint32_t>(node.raw_value("fw_version") & 0x3ff);
  properties.uCodeEngineVersions.Value =
      static_cast<std::uint32_t>(node.raw_value("sdma_fw_version") & 0x3ff);
  properties.DrmRenderMinor = static_cast<std::int32_t>(node.raw_value("drm_render_minor"));
  properties.NumIOLinks =
      static_cast<std::uint32_t>(node.raw_value("io_links_count") + node.raw_value("p2p_links_count"));
  properties.NumXcc = std::max(1u, properties.NumXcc);
  if (properties.NumArrays != 0)
    properties.NumShaderBanks =
        static_cast<std::uint32_t>(node.raw_value("array_count")) / properties.NumArrays;
  set_gfx_version(properties, node.raw_value("gfx_target_version"));
  if (const auto text = process.read_sysfs(directory + "/gpu_id")) {
    std::from_chars(text.value().data(), text.value().data() + text.value().size(), properties.KFDGpuID);
  }
  if (const auto name = process.read_sysfs(directory + "/name")) {
    set_text(properties.AMDName, name.value());
    set_wide_text(properties.MarketingName, name.value());
  }
  if (node.is_gpu()) {
    properties.SGPRSizePerCU = kScalarRegistersPerCu;
    properties.VGPRSizePerCU = vector_registers_per_cu(node.gfx_version());
  }
  node.memory = read_memory(process, directory + "/mem_banks");
  node.caches = read_caches(process, directory + "/caches");
  read_links(process, directory + "/io_links", node.links);
  read_links(process, directory + "/p2p_links", node.links);
  return node;
}

}  // namespace

std::uint32_t TopologyNode::gfx_version() const {
  const auto& id = properties.EngineId.ui32;
  return std::uint32_t{id.Major} << 16 | std::uint32_t{id.Minor} << 8 | id.Stepping;
}

std::uint64_t TopologyNode::raw_value(const std::string& key) const {
  return value_of(raw, key.c_str());
}

const TopologyNode* Topology::gpu(std::uint32_t gpu_id) const {
  const auto found =
      std::ranges::find_if(nodes, [&](const TopologyNode& node) { return node.gpu_id() == gpu_id; });
  return gpu_id == 0 || found == nodes.end() ? nullptr : &*found;
}

std::vector<const TopologyNode*> Topology::gpus() const {
  std::vector<const TopologyNode*> found;
  for (const TopologyNode& node : nodes) {
    if (node.is_gpu()) found.push_back(&node);
  }
  return found;
}

std::uint32_t Topology::node_of_gpu(std::uint32_t gpu_id) const {
  const TopologyNode* const node = gpu(gpu_id);
  return node ? static_cast<std::uint32_t>(node - nodes.data()) : 0;
}

Result<Topology> read_topology(const HostProcess& process) {
  Topology topology;
  const std::string root(kRoot);
  const Properties system = TRY(read_properties(process, root + "/system_properties"));
  topology.system.PlatformOem = static_cast<std::uint32_t>(value_of(system, "platform_oem"));
  topology.system.PlatformId = static_cast<std::uint32_t>(value_of(system, "platform_id"));
  topology.system.PlatformRev = static_cast<std::uint32_t>(value_of(system, "platform_rev"));
  for (const std::string& name : numbered(process, root + "/nodes"))
    topology.nodes.push_back(TRY(read_node(process, root + "/nodes/" + name)));
  topology.system.NumNodes = static_cast<std::uint32_t>(topology.nodes.size());
  return topology;
}

}  // namespace understudy::virtio_gpu
