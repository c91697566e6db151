#include "sim/kfd/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/kfd/topology/caches.h"
#include "sim/profile/profile_reader.h"
#include "uapi/amdgpu.h"
#include "uapi/kfd_sysfs.h"

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kMaxU16 = 0xffff;
constexpr std::uint64_t kMaxU32 = 0xffffffff;
constexpr std::uint64_t kAtiVendor = 0x1002;
// Physical addresses of the MMU hubs.
constexpr std::uint64_t kMaxVramBytes = std::uint64_t{1} << 48;

struct NamedValue {
  const char* name;
  std::uint32_t value;
};

constexpr NamedValue kVramTypes[] = {
    {"gddr5", uapi::amdgpu::AMDGPU_VRAM_TYPE_GDDR5},   {"gddr6", uapi::amdgpu::AMDGPU_VRAM_TYPE_GDDR6},
    {"hbm", uapi::amdgpu::AMDGPU_VRAM_TYPE_HBM},       {"hbm3e", uapi::amdgpu::AMDGPU_VRAM_TYPE_HBM3E},
    {"ddr4", uapi::amdgpu::AMDGPU_VRAM_TYPE_DDR4},     {"ddr5", uapi::amdgpu::AMDGPU_VRAM_TYPE_DDR5},
    {"lpddr4", uapi::amdgpu::AMDGPU_VRAM_TYPE_LPDDR4}, {"lpddr5", uapi::amdgpu::AMDGPU_VRAM_TYPE_LPDDR5},
};

constexpr NamedValue kCacheTypes[] = {
    {"data", uapi::kfd_sysfs::HSA_CACHE_TYPE_DATA | uapi::kfd_sysfs::HSA_CACHE_TYPE_HSACU},
    {"instruction", uapi::kfd_sysfs::HSA_CACHE_TYPE_INSTRUCTION | uapi::kfd_sysfs::HSA_CACHE_TYPE_HSACU},
};

constexpr NamedValue kBars[] = {
    {"large", uapi::kfd_sysfs::HSA_MEM_HEAP_TYPE_FB_PUBLIC},
    {"small", uapi::kfd_sysfs::HSA_MEM_HEAP_TYPE_FB_PRIVATE},
};

template <std::size_t Count>
std::uint32_t named_value(const profile::Table& table, const char* key, const NamedValue (&values)[Count]) {
  std::vector<std::string> names;
  for (const NamedValue& value : values) names.emplace_back(value.name);
  return values[table.choice(key, names)].value;
}

unsigned small_number(const profile::Table& table, const char* key, unsigned min, unsigned max) {
  return static_cast<unsigned>(table.number(key, min, max));
}

ComputeLayout read_compute_layout(const profile::Table& table) {
  ComputeLayout layout;
  layout.xcc_count = static_cast<unsigned>(table.number_or("xcc_count", 1, 1, 8));
  layout.shader_engines = small_number(table, "shader_engines", 1, 8);
  layout.arrays_per_engine = small_number(table, "arrays_per_engine", 1, 2);
  layout.cus_per_array = small_number(table, "cus_per_array", 1, 32);
  layout.simds_per_cu = small_number(table, "simds_per_cu", 1, 8);
  const unsigned arrays = layout.arrays_per_xcc() * layout.xcc_count;
  layout.active_cus = small_number(table, "active_cus", arrays, arrays * layout.cus_per_array);
  return layout;
}

std::vector<CacheProfile> read_caches(const profile::Table& root) {
  std::vector<CacheProfile> caches;
  for (const profile::Table& table : root.tables("cache")) {
    CacheProfile& cache = caches.emplace_back();
    cache.level = small_number(table, "level", 1, 3);
    cache.size_kb = table.number("size_kb", 1, kMaxU32);
    cache.cache_line_size = small_number(table, "line_bytes", 16, 4096);
    cache.type = named_value(table, "type", kCacheTypes);
    cache.cus_sharing = small_number(table, "cus_sharing", 1, 32);
  }
  return caches;
}

PciProfile read_pci(const profile::Table& table) {
  PciProfile pci;
  pci.device = static_cast<std::uint16_t>(table.number("device", 1, kMaxU16));
  pci.revision = static_cast<std::uint8_t>(table.number("revision", 0, 0xff));
  pci.subsystem_vendor =
      static_cast<std::uint16_t>(table.number_or("subsystem_vendor", kAtiVendor, 1, kMaxU16));
  pci.subsystem_device = static_cast<std::uint16_t>(table.number("subsystem_device", 0, kMaxU16));
  pci.class_code = static_cast<std::uint32_t>(table.number("class", 0x010000, 0xffffff));
  pci.link_generation = small_number(table, "link_generation", 1, 5);
  pci.link_width = small_number(table, "link_width", 1, 16);
  return pci;
}

XgmiProfile read_xgmi(const profile::Table& table) {
  XgmiProfile xgmi;
  xgmi.hive_size = small_number(table, "hive_size", 2, 64);
  xgmi.links_per_peer = small_number(table, "links_per_peer", 1, 8);
  xgmi.link_bandwidth_mbs = small_number(table, "link_bandwidth_mbs", 1, 1000000);
  return xgmi;
}

SensorProfile read_sensors(const profile::Table& table) {
  constexpr std::uint64_t kMaxMhz = 20000;
  constexpr unsigned kMaxWatts = 10000, kMaxCelsius = 200;
  const auto optional = [&table](const char* key, std::uint64_t max) {
    return static_cast<unsigned>(table.number_or(key, 0, 0, max));
  };
  SensorProfile sensors;
  sensors.sclk = table.numbers("sclk_mhz", 1, kMaxMhz);
  sensors.mclk = table.numbers("mclk_mhz", 1, kMaxMhz);
  sensors.fclk = table.numbers("fclk_mhz", 1, kMaxMhz);
  sensors.socclk = table.numbers("socclk_mhz", 1, kMaxMhz);
  sensors.dcefclk = table.numbers("dcefclk_mhz", 1, kMaxMhz);
  sensors.idle_power_watts = optional("idle_power_watts", kMaxWatts);
  sensors.power_cap_watts = optional("power_cap_watts", kMaxWatts);
  sensors.power_cap_min_watts = optional("power_cap_min_watts", kMaxWatts);
  sensors.power_cap_max_watts = optional("power_cap_max_watts", kMaxWatts);
  sensors.edge_celsius = optional("edge_celsius", kMaxCelsius);
  sensors.edge_critical_celsius = optional("edge_critical_celsius", kMaxCelsius);
  sensors.junction_celsius = optional("junction_celsius", kMaxCelsius);
  sensors.junction_critical_celsius = optional("junction_critical_celsius", kMaxCelsius);
  sensors.memory_celsius = optional("memory_celsius", kMaxCelsius);
  sensors.memory_critical_celsius = optional("memory_critical_celsius", kMaxCelsius);
  sensors.fan_max_rpm = optional("fan_max_rpm", 20000);
  sensors.voltage_mv = optional("voltage_mv", 5000);
  constexpr unsigned kMetricsVersions[][2] = {{1, 3}, {3, 0}};
  const unsigned(&version)[2] = kMetricsVersions[table.choice("gpu_metrics", {"1.3", "3.0"})];
  sensors.metrics_format = version[0];
  sensors.metrics_content = version[1];
  return sensors;
}

PartitionProfile read_partition(const profile::Table& table) {
  return {table.text("compute"), table.texts("computes"), table.text("memory")};
}

// amdgpu_ras.c: ras_block_string; a block's place is its bit in the mask of features.
constexpr const char* kRasBlocks[] = {"umc",       "sdma", "gfx",  "mmhub", "athub", "pcie_bif", "hdp",
                                      "xgmi_wafl", "df",   "smn",  "sem",   "mp0",   "mp1",      "fuse",
                                      "mca",       "vcn",  "jpeg", "ih",    "mpio"};

void read_ras(const profile::Table& table, GpuProfile& profile) {
  profile.ras_blocks = table.texts("blocks");
  for (const std::string& block : profile.ras_blocks) {
    const auto* found = std::find(std::begin(kRasBlocks), std::end(kRasBlocks), block);
    if (found == std::end(kRasBlocks)) {
      table.reject("blocks", fmt::format("takes a list of {}", fmt::join(kRasBlocks, ", ")));
    } else {
      profile.ras_features |= 1u << (found - std::begin(kRasBlocks));
    }
  }
}

std::vector<FirmwareVersion> read_firmware(const profile::Table& table) {
  // The files of fw_version/ (amdgpu_ucode.c).
  constexpr const char* kNames[] = {
      "asd",      "ce",       "dmcu", "imu",   "mc",  "me",  "mec",    "mec2",    "pfp", "rlc", "rlc_srlc",
      "rlc_srlg", "rlc_srls", "sdma", "sdma2", "smc", "sos", "ta_ras", "ta_xgmi", "uvd", "vce", "vcn"};
  std::vector<FirmwareVersion> firmware;
  for (const char* name : kNames) {
    firmware.push_back({name, static_cast<std::uint32_t>(table.number_or(name, 0, 0, kMaxU32))});
  }
  return firmware;
}

using Properties = std::vector<std::pair<std::string, std::uint64_t>>;

// kfd_topology.c: node_show, with what kfd_crat.c and kfd_topology_add_device put there.
Properties read_properties(const profile::Table& root, const GpuProfile& profile) {
  const profile::Table compute = root.table("compute");
  const profile::Table sdma = root.table("sdma");
  const ComputeLayout& layout = profile.compute;
  return {
      {"cpu_cores_count", 0},
      {"simd_count", layout.simds_per_cu * layout.active_cus},
      {"mem_banks_count", 1},
      {"caches_count", count_caches(layout, profile.caches)},
      {"io_links_count", 0},
      {"p2p_links_count", 0},
      {"cpu_core_id_base", 0},
      {"simd_id_base", 0},
      {"max_waves_per_simd", compute.number("waves_per_simd", 1, 64)},
      {"lds_size_in_kb", compute.number("lds_kb", 1, 1024)},
      {"gds_size_in_kb", 0},
      {"num_gws", compute.number_or("gws", 0, 0, 64)},
      {"wave_front_size", compute.number("wave_front_size", 32, 64)},
      {"array_count", layout.arrays_per_xcc() * layout.xcc_count},
      {"simd_arrays_per_engine", layout.arrays_per_engine},
      {"cu_per_simd_array", layout.cus_per_array},
      {"simd_per_cu", layout.simds_per_cu},
      {"max_slots_scratch_cu", compute.number("scratch_slots_per_cu", 1, 1024)},
      {"gfx_target_version", compute.number("gfx_target_version", 70000, 999999)},
      {"vendor_id", kAtiVendor},
      {"device_id", profile.pci.device},
      {"location_id", 0},
      {"domain", 0},
      {"drm_render_minor", 0},
      {"hive_id", 0},
      {"num_sdma_engines", sdma.number("engines", 1, 16)},
      {"num_sdma_xgmi_engines", sdma.number_or("xgmi_engines", 0, 0, 16)},
      {"num_sdma_queues_per_engine", sdma.number("queues_per_engine", 1, 64)},
      {"num_cp_queues", compute.number("queues", 1, 128)},
      {"cwsr_size", profile.cwsr_bytes},
      {"ctl_stack_size", profile.control_stack_bytes},
      {"max_engine_clk_fcompute", compute.number("max_clock_mhz", 1, 20000)},
      {"local_mem_size", 0},
      {"fw_version", compute.number("mec_firmware", 0, kMaxU32)},
      {"capability", compute.number("capability", 0, kMaxU32)},
      {"capability2", compute.number_or("capability2", 0, 0, kMaxU32)},
      {"debug_prop", compute.number("debug_prop", 0, kMaxU32)},
      {"sdma_fw_version", sdma.number("firmware", 0, kMaxU32)},
      {"unique_id", 0},
      {"num_xcc", layout.xcc_count},
      {"max_engine_clk_ccompute", 0},
  };
}

GpuProfile read_profile(const profile::Table& root) {
  GpuProfile profile;
  if (root.choice("kind", {"gpu"}) != 0) return profile;
  profile.marketing_name = root.text("marketing_name");
  profile.sysfs_name = root.text("topology_name");
  profile.is_apu = root.flag_or("apu", false);

  const profile::Table compute = root.table("compute");
  profile.compute = read_compute_layout(compute);
  profile.caches = read_caches(root);
  profile.supports_xnack = compute.flag_or("xnack", false);
  profile.cwsr_bytes = compute.number("cwsr_bytes", 0, kMaxU32);
  profile.control_stack_bytes = compute.number("control_stack_bytes", 0, kMaxU32);
  profile.debug_memory_bytes = compute.number("debug_memory_bytes", 0, kMaxU32);
  profile.eop_buffer_bytes = compute.number_or("eop_buffer_bytes", 4096, 4096, 1 << 20);
  profile.sdma_major = static_cast<unsigned>(root.table("sdma").number("packets", 4, 7));

  const profile::Table memory = root.table("memory");
  profile.vram_bytes = memory.number("vram_bytes", 1 << 20, kMaxVramBytes);
  profile.memory_heap_type = named_value(memory, "bar", kBars);
  profile.vram_type = named_value(memory, "type", kVramTypes);
  profile.memory_width_bits = static_cast<unsigned>(memory.number("width_bits", 8, 65536));
  profile.memory_clock_mhz = static_cast<unsigned>(memory.number("clock_mhz", 1, 20000));
  profile.memory_vendor = memory.text_or("vendor", "unknown");

  profile.pci = read_pci(root.table("pci"));
  const profile::Table drm = root.table("drm");
  profile.family_id = static_cast<std::uint32_t>(drm.number("family", 1, 255));
  profile.external_revision = static_cast<std::uint32_t>(drm.number("external_revision", 0, 255));
  profile.gb_addr_config = static_cast<std::uint32_t>(drm.number("gb_addr_config", 0, kMaxU32));
  profile.vbios_version = drm.text("vbios_version");
  profile.has_unique_id = drm.flag_or("unique_id", false);

  if (const auto table = root.optional_table("xgmi")) profile.xgmi = read_xgmi(*table);
  if (const auto table = root.optional_table("ras")) read_ras(*table, profile);
  if (const auto table = root.optional_table("partition")) profile.partition = read_partition(*table);
  if (const auto table = root.optional_table("firmware")) profile.firmware = read_firmware(*table);
  profile.sensors = read_sensors(root.table("sensors"));
  profile.properties = read_properties(root, profile);
  return profile;
}

}  // namespace

std::uint32_t ComputeLayout::active_mask(unsigned xcc, unsigned engine, unsigned array) const {
  const unsigned in_xcc = active_cus / xcc_count + (xcc < active_cus % xcc_count ? 1 : 0);
  const unsigned index = engine * arrays_per_engine + array;
  const unsigned in_array = in_xcc / arrays_per_xcc() + (index < in_xcc % arrays_per_xcc() ? 1 : 0);
  return static_cast<std::uint32_t>((std::uint64_t{1} << in_array) - 1);
}

std::uint64_t GpuProfile::property(std::string_view key) const {
  const auto found = std::find_if(properties.begin(), properties.end(),
                                  [key](const auto& entry) { return entry.first == key; });
  return found == properties.end() ? 0 : found->second;
}

std::optional<GpuProfile> load_gpu_profile(std::string_view name_or_path,
                                           const profile::Directories& directories, std::string* why) {
  const auto path = profile::find_file(name_or_path, "gpu", directories, why);
  if (!path) return std::nullopt;
  const profile::Reader reader(*path, directories);
  GpuProfile profile = read_profile(reader.root());
  if (const auto problem = reader.problem()) {
    *why = *problem;
    return std::nullopt;
  }
  profile.name = path->stem().string();
  return profile;
}

}  // namespace understudy::kfd
