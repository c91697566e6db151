// GpuProfile: data that describes a GPU model, read from profiles/<name>.toml (kind = "gpu").
//
// Owner: plain data. Units in the names. Errors: load_gpu_profile's message names file, line and what is
// accepted. Thread-safety: read-only after loading. Mirrors: what amdgpu learns from IP discovery and the
// VBIOS (struct amdgpu_gfx_config, amdgpu_cu_info), and the firmware's power tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/profile/profile_files.h"

namespace understudy::kfd {

// One line of the driver's cache table (kfd_crat.c: struct kfd_gpu_cache_info).
struct CacheProfile {
  unsigned level = 0;
  std::uint64_t size_kb = 0;
  unsigned cache_line_size = 0;
  unsigned type = 0;         // HSA_CACHE_TYPE_*
  unsigned cus_sharing = 1;  // num_cu_shared; every cache of level 2 and 3 is there once
};

// Compute units: harvested ones keep their place and are missing from the masks.
struct ComputeLayout {
  unsigned xcc_count = 1;
  unsigned shader_engines = 0;     // per XCC
  unsigned arrays_per_engine = 0;  // max_sh_per_se
  unsigned cus_per_array = 0;      // max_cu_per_sh, harvested ones included
  unsigned active_cus = 0;         // of the device
  unsigned simds_per_cu = 0;

  unsigned arrays_per_xcc() const { return shader_engines * arrays_per_engine; }
  // amdgpu_cu_info.bitmap: bit per compute unit. Which ones are harvested differs from chip to chip; here the
  // last ones of the last arrays.
  std::uint32_t active_mask(unsigned xcc, unsigned engine, unsigned array) const;
};

struct PciProfile {
  std::uint16_t device = 0;
  std::uint8_t revision = 0;
  std::uint16_t subsystem_vendor = 0;
  std::uint16_t subsystem_device = 0;
  std::uint32_t class_code = 0;  // 0x030000 VGA, 0x038000 display, 0x120000 processing accelerator
  unsigned link_generation = 0;  // 1 (2.5 GT/s) to 5 (32 GT/s)
  unsigned link_width = 0;
};

// Links between the GPUs of a hive.
struct XgmiProfile {
  unsigned hive_size = 0;  // at most that many GPUs, each linked to each
  unsigned links_per_peer = 0;
  unsigned link_bandwidth_mbs = 0;  // of one link
};

// What the power management shows of an idle GPU.
struct SensorProfile {
  // Levels in MHz, lowest first; the GPU runs at the lowest. Empty: no such attribute.
  std::vector<std::uint64_t> sclk, mclk, fclk, socclk, dcefclk;
  unsigned idle_power_watts = 0;
  unsigned power_cap_watts = 0;  // 0: the power cannot be capped
  unsigned power_cap_min_watts = 0;
  unsigned power_cap_max_watts = 0;
  // Degrees Celsius; no such sensor when the idle value is 0.
  unsigned edge_celsius = 0, edge_critical_celsius = 0;
  unsigned junction_celsius = 0, junction_critical_celsius = 0;
  unsigned memory_celsius = 0, memory_critical_celsius = 0;
  unsigned fan_max_rpm = 0;                          // 0: no fan
  unsigned voltage_mv = 0;                           // 0: not shown
  unsigned metrics_format = 1, metrics_content = 3;  // header of gpu_metrics
};

struct PartitionProfile {
  std::string compute;                // current_compute_partition, empty: none
  std::vector<std::string> computes;  // available_compute_partition
  std::string memory;                 // current_memory_partition
};

struct FirmwareVersion {
  std::string name;  // fw_version/<name>_fw_version
  std::uint32_t version = 0;
};

struct GpuProfile {
  std::string name;            // "gfx90a"
  std::string marketing_name;  // "AMD Instinct MI210"
  std::string sysfs_name;      // topology nodes/N/name
  // topology nodes/N/properties in the order printed, with 0 where the value depends on the machine
  // (location_id, ...).
  std::vector<std::pair<std::string, std::uint64_t>> properties;
  std::uint64_t property(std::string_view key) const;  // 0 when absent
  ComputeLayout compute;
  std::vector<CacheProfile> caches;
  std::uint64_t vram_bytes = 0;
  unsigned memory_heap_type = 1;  // 1 public (large BAR), 2 private
  unsigned memory_width_bits = 0;
  unsigned memory_clock_mhz = 0;
  std::string memory_vendor;  // mem_info_vram_vendor
  bool is_apu = false;
  bool has_xgmi() const { return xgmi.hive_size > 1; }  // several of them form a hive
  XgmiProfile xgmi;
  // PCI and DRM side
  PciProfile pci;
  std::uint32_t family_id = 0;
  std::uint32_t external_revision = 0;
  std::uint32_t vram_type = 0;  // AMDGPU_VRAM_TYPE_*
  std::uint32_t gb_addr_config = 0;
  std::string vbios_version;
  bool has_unique_id = false;
  std::uint32_t ras_features = 0;  // bit per block (AMDGPU_RAS_BLOCK__*); 0: no RAS
  std::vector<std::string> ras_blocks;
  std::vector<FirmwareVersion> firmware;
  SensorProfile sensors;
  PartitionProfile partition;
  unsigned sdma_major = 4;  // packet dialect: 4, 5, 6, 7
  bool supports_xnack = false;
  std::uint64_t cwsr_bytes = 0;
  std::uint64_t control_stack_bytes = 0;
  std::uint64_t debug_memory_bytes = 0;
  std::uint64_t eop_buffer_bytes = 4096;
};

// By name or path. Nothing, and one line in `why`, when it cannot be read.
std::optional<GpuProfile> load_gpu_profile(std::string_view name_or_path,
                                           const profile::Directories& directories, std::string* why);

}  // namespace understudy::kfd
