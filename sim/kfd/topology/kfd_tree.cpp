#include "sim/kfd/topology/kfd_tree.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include "sim/kfd/topology/caches.h"
#include "uapi/kfd_sysfs.h"

namespace understudy::kfd {
namespace {

using uapi::kfd_sysfs::HSA_MEM_HEAP_TYPE_SYSTEM;

// Of the firmware tables, which a simulated machine does not have.
constexpr std::uint64_t kPlatformOem = 0;
constexpr std::uint64_t kPlatformId = 0;
constexpr std::uint64_t kPlatformRevision = 2;

constexpr const char* kLastKey = "max_engine_clk_ccompute";

using Properties = std::vector<std::pair<std::string, std::uint64_t>>;

std::string text_of(const Properties& properties) {
  std::string text;
  for (const auto& [key, value] : properties) text += fmt::format("{} {}\n", key, value);
  return text;
}

void set(Properties& properties, std::string_view key, std::uint64_t value) {
  for (auto& [name, property] : properties) {
    if (name == key) property = value;
  }
}

Properties gpu_properties(const TopologyNode& node, const CpuLayout& cpu) {
  const GpuPlacement& placement = node.gpu->placement();
  Properties properties = node.gpu->profile().properties;
  set(properties, "io_links_count", node.io_links.size());
  set(properties, "p2p_links_count", node.p2p_links.size());
  set(properties, "simd_id_base", node.simd_id_base);
  set(properties, "location_id", pci_location_id(placement));
  set(properties, "domain", placement.pci_domain);
  set(properties, "drm_render_minor", placement.render_minor);
  set(properties, "hive_id", placement.hive_id);
  set(properties, "unique_id", placement.unique_id);
  set(properties, kLastKey, cpu.max_clock_mhz);
  return properties;
}

Properties cpu_properties(const TopologyNode& node, const CpuLayout& cpu) {
  return {
      {"cpu_cores_count", node.core_count},
      {"simd_count", 0},
      {"mem_banks_count", 1},
      {"caches_count", node.lists_cpu_cache ? 1 : 0},
      {"io_links_count", node.io_links.size()},
      {"p2p_links_count", node.p2p_links.size()},
      {"cpu_core_id_base", node.core_id_base},
      {"simd_id_base", 0},
      {"max_waves_per_simd", 0},
      {"lds_size_in_kb", 0},
      {"gds_size_in_kb", 0},
      {"num_gws", 0},
      {"wave_front_size", 0},
      {"array_count", 0},
      {"simd_arrays_per_engine", 0},
      {"cu_per_simd_array", 0},
      {"simd_per_cu", 0},
      {"max_slots_scratch_cu", 0},
      {"gfx_target_version", 0},
      {"vendor_id", 0},
      {"device_id", 0},
      {"location_id", 0},
      {"domain", 0},
      {"drm_render_minor", 0},
      {"hive_id", 0},
      {"num_sdma_engines", 0},
      {"num_sdma_xgmi_engines", 0},
      {"num_sdma_queues_per_engine", 0},
      {"num_cp_queues", 0},
      {"cwsr_size", 0},
      {"ctl_stack_size", 0},
      {kLastKey, cpu.max_clock_mhz},
  };
}

// amdgpu_amdkfd.c: amdgpu_amdkfd_get_local_mem_info: where VRAM is backed by GTT, GTT is what there is.
std::string memory_properties(const TopologyNode& node) {
  Properties properties = {{"heap_type", HSA_MEM_HEAP_TYPE_SYSTEM},
                           {"size_in_bytes", node.memory_bytes},
                           {"flags", 0},
                           {"width", 0},
                           {"mem_clk_max", 0}};
  if (node.gpu != nullptr) {
    const GpuProfile& profile = node.gpu->profile();
    set(properties, "heap_type", profile.memory_heap_type);
    set(properties, "size_in_bytes",
        node.gpu->prefers_gtt() ? node.gpu->gtt_size_bytes() : node.gpu->vram_size_bytes());
    set(properties, "width", profile.memory_width_bits);
    set(properties, "mem_clk_max", profile.memory_clock_mhz);
  }
  return text_of(properties);
}

std::string link_properties(const IoLink& link) {
  return text_of({{"type", link.type},
                  {"version_major", 0},
                  {"version_minor", 0},
                  {"node_from", link.node_from},
                  {"node_to", link.node_to},
                  {"weight", link.weight},
                  {"min_latency", 0},
                  {"max_latency", 0},
                  {"min_bandwidth", link.min_bandwidth_mbs},
                  {"max_bandwidth", link.max_bandwidth_mbs},
                  {"recommended_transfer_size", 0},
                  {"recommended_sdma_engine_id_mask", link.recommended_sdma_engines},
                  {"flags", link.flags}});
}

void add_links(SysfsTree& sysfs, const std::string& directory, const std::vector<IoLink>& links) {
  sysfs.directory(directory);
  for (std::size_t i = 0; i < links.size(); ++i)
    sysfs.attribute(fmt::format("{}/{}/properties", directory, i), link_properties(links[i]));
}

void add_caches(SysfsTree& sysfs, const std::string& directory, const TopologyNode& node) {
  const std::vector<std::string> caches = cache_properties(node.gpu->profile(), node.simd_id_base);
  for (std::size_t i = 0; i < caches.size(); ++i)
    sysfs.attribute(fmt::format("{}/{}/properties", directory, i), caches[i]);
}

void add_node(SysfsTree& sysfs, const std::string& directory, const TopologyNode& node,
              const CpuLayout& cpu) {
  const bool is_gpu = node.gpu != nullptr;
  sysfs.attribute(directory + "/gpu_id", fmt::format("{}\n", is_gpu ? node.gpu->gpu_id() : 0));
  sysfs.attribute(directory + "/name", (is_gpu ? node.gpu->profile().sysfs_name : "") + "\n");
  sysfs.attribute(directory + "/properties",
                  text_of(is_gpu ? gpu_properties(node, cpu) : cpu_properties(node, cpu)));
  sysfs.attribute(directory + "/mem_banks/0/properties", memory_properties(node));
  if (is_gpu) {
    const std::string caches = directory + "/caches";
    sysfs.directory(caches, [&sysfs, caches, &node] { add_caches(sysfs, caches, node); });
  } else if (node.lists_cpu_cache) {
    sysfs.attribute(directory + "/caches/0/properties",
                    cpu_cache_properties(node.core_id_base, node.core_count));
  } else {
    sysfs.directory(directory + "/caches");
  }
  add_links(sysfs, directory + "/io_links", node.io_links);
  add_links(sysfs, directory + "/p2p_links", node.p2p_links);
  sysfs.directory(directory + "/perf");
}

}  // namespace

void add_kfd_device(SysfsTree& sysfs, dev_t device_number) {
  const std::string directory = kKfdDirectory;
  const std::string number = fmt::format("{}:{}", major(device_number), minor(device_number));
  sysfs.attribute(directory + "/dev", number + "\n");
  sysfs.attribute(directory + "/uevent", fmt::format("MAJOR={}\nMINOR={}\nDEVNAME=kfd\n",
                                                     major(device_number), minor(device_number)));
  sysfs.link_to(directory + "/subsystem", "class/kfd");
  sysfs.directory(directory + "/proc");
  sysfs.link_to("class/kfd/kfd", directory);
  sysfs.link_to("dev/char/" + number, directory);
}

void add_topology(SysfsTree& sysfs, std::shared_ptr<const TopologyGraph> graph, const CpuLayout& cpu) {
  const std::string directory = std::string(kKfdDirectory) + "/topology";
  sysfs.attribute(directory + "/generation_id", fmt::format("{}\n", graph->generation()));
  sysfs.attribute(directory + "/system_properties", text_of({{"platform_oem", kPlatformOem},
                                                             {"platform_id", kPlatformId},
                                                             {"platform_rev", kPlatformRevision}}));
  sysfs.directory(directory + "/nodes");
  for (std::size_t i = 0; i < graph->nodes().size(); ++i) {
    const std::string node = fmt::format("{}/nodes/{}", directory, i);
    sysfs.directory(node, [&sysfs, node, graph, i, cpu] { add_node(sysfs, node, graph->nodes()[i], cpu); });
  }
}

}  // namespace understudy::kfd
