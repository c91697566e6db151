#include "runtime/driver/amdgpu/topology_node.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "runtime/driver/host/host_driver.h"
#include "uapi/kfd_sysfs.h"

namespace hsa_rt::amdgpu {
namespace {

namespace sysfs = uapi::kfd_sysfs;

// gfx_target_version is major * 10000 + minor * 100 + stepping in decimal; the name has minor and stepping in
// hex.
std::string gfx_name(uint32_t version) {
  char name[32];
  std::snprintf(name, sizeof(name), "gfx%u%x%x", version / 10000, version / 100 % 100, version % 100);
  return name;
}

LinkType link_type(uint32_t kfd_type) {
  switch (kfd_type) {
    case sysfs::HSA_IOLINK_TYPE_HYPERTRANSPORT:
      return LinkType::kHyperTransport;
    case sysfs::HSA_IOLINK_TYPE_QPI_1_1:
      return LinkType::kQpi;
    case sysfs::HSA_IOLINK_TYPE_INFINIBAND:
      return LinkType::kInfiniBand;
    case sysfs::HSA_IOLINK_TYPE_XGMI:
      return LinkType::kXgmi;
    default:
      return LinkType::kPcie;
  }
}

std::vector<LinkInfo> describe_links(const TopologyNode& node) {
  std::vector<LinkInfo> links;
  for (const Properties& from : node.links) {
    const uint32_t flags = from.get32("flags");
    LinkInfo link;
    link.node_to = from.get32("node_to");
    link.type = link_type(from.get32("type"));
    link.weight = from.get32("weight");
    link.min_latency = from.get32("min_latency");
    link.max_latency = from.get32("max_latency");
    link.min_bandwidth_mb_s = from.get32("min_bandwidth");
    link.max_bandwidth_mb_s = from.get32("max_bandwidth");
    link.coherent = (flags & sysfs::HSA_IOLINK_FLAGS_NON_COHERENT) == 0;
    link.atomics_32bit = (flags & sysfs::HSA_IOLINK_FLAGS_NO_ATOMICS_32_BIT) == 0;
    link.atomics_64bit = (flags & sysfs::HSA_IOLINK_FLAGS_NO_ATOMICS_64_BIT) == 0;
    link.peer_to_peer = (flags & sysfs::HSA_IOLINK_FLAGS_NO_PEER_TO_PEER_DMA) == 0;
    links.push_back(link);
  }
  return links;
}

std::vector<CacheInfo> describe_caches(const TopologyNode& node) {
  std::vector<CacheInfo> caches;
  for (const Properties& from : node.caches) {
    if ((from.get("type") & sysfs::HSA_CACHE_TYPE_DATA) == 0) continue;
    const CacheInfo cache{from.get32("level"), from.get("size") * 1024, true};
    // One entry stands for all caches of a kind: the topology lists them per compute unit.
    const bool listed = std::ranges::any_of(caches, [&](const CacheInfo& other) {
      return other.level == cache.level && other.size_bytes == cache.size_bytes;
    });
    if (!listed) caches.push_back(cache);
  }
  std::ranges::stable_sort(caches, {}, &CacheInfo::level);
  return caches;
}

std::string isa_name(uint32_t version, uint32_t capability) {
  constexpr uint32_t kWithSramEcc[] = {90006, 90008, 90010, 90402, 90500};
  std::string name = "amdgcn-amd-amdhsa--" + gfx_name(version);
  if (std::ranges::find(kWithSramEcc, version) != std::end(kWithSramEcc)) {
    name += (capability & sysfs::HSA_CAP_SRAM_EDCSUPPORTED) != 0 ? ":sramecc+" : ":sramecc-";
  }
  // KFD switches XNACK per process and starts with it off where the chip has a choice.
  if (version / 10000 == 9) name += ":xnack-";
  return name;
}

std::vector<PoolInfo> gpu_pools(const TopologyNode& node, uint32_t gfx_version) {
  constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
  std::vector<PoolInfo> pools;
  PoolInfo local;
  local.placement = Placement::kDevice;
  local.cpu_visible = false;
  local.recommended_granule_bytes = kHugePageBytes;
  for (const Properties& bank : node.memory_banks) {
    const uint32_t heap = bank.get32("heap_type");
    if (heap == sysfs::HSA_MEM_HEAP_TYPE_FB_PUBLIC) local.cpu_visible = true;
    if (heap == sysfs::HSA_MEM_HEAP_TYPE_FB_PUBLIC || heap == sysfs::HSA_MEM_HEAP_TYPE_FB_PRIVATE) {
      local.size_bytes += bank.get("size_in_bytes");
    }
  }
  local.size_bytes &= ~(kPageBytes - 1);
  if (local.size_bytes != 0) {
    PoolInfo coarse = local;
    coarse.coarse_grained = true;
    pools.push_back(coarse);
    if (gfx_version >= 90010 &&
        gfx_version < 100000) {  // Instinct chips keep local memory coherent on request
      PoolInfo fine = local;
      fine.fine_grained = true;
      pools.push_back(fine);
    }
  }
  PoolInfo group;
  group.segment = PoolSegment::kGroup;
  group.size_bytes = node.properties.get("lds_size_in_kb") * 1024;
  group.allocatable = false;
  group.cpu_visible = false;
  pools.push_back(group);
  return pools;
}

}  // namespace

Properties Properties::parse(std::string_view text) {
  Properties properties;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    uint64_t value = 0;
    std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    properties.values_.emplace(line.substr(0, space), value);
  }
  return properties;
}

uint64_t Properties::get(const std::string& key, uint64_t otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? otherwise : found->second;
}

DeviceInfo describe_cpu(const TopologyNode& node) {
  const ProcessorInfo processor = read_processor_info();
  DeviceInfo info;
  info.kind = DeviceKind::kCpu;
  info.node_id = info.nearest_cpu_node = node.node_id;
  info.name = info.product_name = processor.model_name;
  info.vendor_name = "CPU";
  info.uuid = "CPU-XX";
  info.compute_units = node.properties.get32("cpu_cores_count");
  info.max_clock_mhz = node.properties.get32("max_engine_clk_ccompute");
  info.simds_per_cu = info.shader_engines = info.shader_arrays_per_engine = 0;
  info.caches = read_processor_caches();
  info.links = describe_links(node);
  uint64_t memory_bytes = 0;
  for (const Properties& bank : node.memory_banks) {
    memory_bytes += bank.get("size_in_bytes");
    info.memory_width_bits = bank.get32("width");
    info.memory_clock_mhz = bank.get32("mem_clk_max");
  }
  info.pools = system_memory_pools(memory_bytes);
  return info;
}

DeviceInfo describe_gpu(const TopologyNode& node, const std::vector<TopologyNode>& all) {
  const Properties& from = node.properties;
  const uint32_t gfx_version = from.get32("gfx_target_version");
  const uint32_t capability = from.get32("capability");
  DeviceInfo info;
  info.kind = DeviceKind::kGpu;
  info.node_id = node.node_id;
  info.name = gfx_name(gfx_version);
  info.product_name = node.name;
  info.vendor_name = "AMD";
  char uuid[32] = "GPU-XX";
  if (const uint64_t unique_id = from.get("unique_id")) {
    std::snprintf(uuid, sizeof(uuid), "GPU-%016llx", static_cast<unsigned long long>(unique_id));
  }
  info.uuid = uuid;
  info.vendor_id = from.get32("vendor_id");
  info.chip_id = from.get32("device_id");
  info.asic_revision = (capability & sysfs::HSA_CAP_ASIC_REVISION_MASK) >> sysfs::HSA_CAP_ASIC_REVISION_SHIFT;
  info.domain = from.get32("domain");
  info.location_id = from.get32("location_id");
  info.driver_uid = node.gpu_id;
  info.simds_per_cu = from.get32("simd_per_cu");
  info.compute_units = info.simds_per_cu == 0 ? 0 : from.get32("simd_count") / info.simds_per_cu;
  info.max_waves_per_cu = info.simds_per_cu * from.get32("max_waves_per_simd");
  info.shader_arrays_per_engine = from.get32("simd_arrays_per_engine");
  info.shader_engines =
      info.shader_arrays_per_engine == 0 ? 0 : from.get32("array_count") / info.shader_arrays_per_engine;
  info.xcc_count = from.get32("num_xcc", 1);
  info.wavefront_size = from.get32("wave_front_size");
  if ((capability & sysfs::HSA_CAP_WATCH_POINTS_SUPPORTED) != 0) {
    info.watch_points = 1u << ((capability & sysfs::HSA_CAP_WATCH_POINTS_TOTALBITS_MASK) >>
                               sysfs::HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT);
  }
  info.max_clock_mhz = from.get32("max_engine_clk_fcompute");
  for (const Properties& bank : node.memory_banks) {
    info.memory_width_bits = bank.get32("width");
    info.memory_clock_mhz = bank.get32("mem_clk_max");
  }
  for (const Properties& cache : node.caches) {
    if (cache.get("level") == 2) info.cacheline_bytes = cache.get32("cache_line_size");
  }
  info.firmware_version = from.get32("fw_version") & 0x3ff;
  info.sdma_firmware_version = from.get32("sdma_fw_version");
  info.sdma_engines = from.get32("num_sdma_engines");
  info.sdma_xgmi_engines = from.get32("num_sdma_xgmi_engines");
  info.max_queues = 128;
  info.queue_min_packets = 64;
  info.queue_max_packets = 0x20000;
  info.fast_f16 = gfx_version >= 80000;
  info.links = describe_links(node);
  uint32_t least_weight = UINT32_MAX;
  for (const LinkInfo& link : info.links) {
    const bool to_cpu = std::ranges::any_of(
        all, [&](const TopologyNode& other) { return other.node_id == link.node_to && other.gpu_id == 0; });
    if (to_cpu && link.weight < least_weight) {
      least_weight = link.weight;
      info.nearest_cpu_node = link.node_to;
    }
  }
  info.integrated = from.get("cpu_cores_count") != 0;
  info.isa_names = {isa_name(gfx_version, capability)};
  info.caches = describe_caches(node);
  info.pools = gpu_pools(node, gfx_version);
  return info;
}

}  // namespace hsa_rt::amdgpu
