// GpuProfile: data that describes a GPU model, read from profiles/<name>.toml.
//
// Owner: plain data. Units in the names. Errors: load_gpu_profile's message names file, line and what is
// accepted. Thread-safety: read-only after loading. Mirrors: what amdgpu learns from IP discovery and the
// VBIOS.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace understudy::kfd {

struct CacheProfile {
  unsigned level = 0;
  std::uint64_t size_kb = 0;
  unsigned cache_line_size = 0;
  unsigned cache_lines_per_tag = 0;
  unsigned association = 0;
  unsigned latency = 0;
  unsigned type = 0;
  unsigned count = 0;
};

struct GpuProfile {
  std::string name;            // "gfx90a"
  std::string marketing_name;  // "AMD Instinct MI210"
  std::string sysfs_name;      // topology nodes/N/name
  // topology nodes/N/properties in the order printed; placement keys (location_id, ...) are overwritten per
  // machine.
  std::vector<std::pair<std::string, std::uint64_t>> properties;
  std::uint64_t property(const std::string& key) const;  // 0 when absent
  std::vector<CacheProfile> caches;
  std::uint64_t vram_bytes = 0;
  unsigned memory_heap_type = 1;  // 1 public (large BAR), 2 private
  unsigned memory_width_bits = 0;
  unsigned memory_clock_mhz = 0;
  bool is_apu = false;
  bool has_xgmi = false;  // several of them form a hive
  // DRM side
  std::uint32_t pci_device = 0;
  std::uint32_t pci_revision = 0;
  std::uint32_t family_id = 0;
  std::uint32_t external_revision = 0;
  std::uint32_t vram_type = 0;
  std::uint32_t gb_addr_config = 0;
  unsigned sdma_major = 4;  // packet dialect: 4, 5, 6, 7
  bool supports_xnack = false;
  std::uint64_t cwsr_bytes = 0;
  std::uint64_t control_stack_bytes = 0;
  std::uint64_t debug_memory_bytes = 0;
  std::uint64_t eop_buffer_bytes = 4096;
};

}  // namespace understudy::kfd
