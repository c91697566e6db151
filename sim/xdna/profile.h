// NpuProfile: data that describes an NPU model, read from profiles/<name>.toml (kind = "npu").
//
// Owner: plain data. Units in the names. Errors: load_npu_profile's message names file, line and what is
// accepted. Thread-safety: read-only after loading. Mirrors: amdxdna's npuN_regs.c: struct amdxdna_dev_info
// and amdxdna_dev_priv.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace understudy::xdna {

struct TileMetadata {
  std::uint16_t row_count = 0;
  std::uint16_t row_start = 0;
  std::uint16_t dma_channel_count = 0;
  std::uint16_t lock_count = 0;
  std::uint16_t event_reg_count = 0;
};

struct DpmLevel {
  std::uint32_t npu_clock_mhz = 0;
  std::uint32_t h_clock_mhz = 0;
};

struct NpuProfile {
  std::string name;  // "npu4"
  std::string vbnv;  // "NPU Strix"
  std::uint32_t pci_device = 0;
  std::uint32_t pci_revision = 0;
  std::uint16_t columns = 0;  // as AIE_METADATA reports
  std::uint16_t rows = 0;
  std::uint16_t usable_columns = 0;
  std::uint16_t first_usable_column = 0;
  TileMetadata core, memory, shim;
  std::uint32_t column_status_bytes = 0;  // one column of AIE_STATUS
  std::array<std::uint32_t, 2> aie_version{};
  std::array<std::uint32_t, 4> firmware_version{};
  std::array<std::uint32_t, 2> protocol_version{};
  std::uint32_t context_limit = 0;
  std::uint64_t heap_max_bytes = 0;
  std::uint64_t tops_max = 0;
  std::uint64_t tops_at_boot = 0;
  std::vector<DpmLevel> dpm_levels;

  // Firmware features by protocol version (xdna.md d.2).
  bool temporal_only() const;
  bool can_preempt() const { return temporal_only(); }
  bool can_expand_heap() const;
  bool runs_start_npu() const;
};

// `name_or_path`: a profile's name or a TOML file. The string is the complaint.
std::variant<NpuProfile, std::string> load_npu_profile(const std::string& name_or_path,
                                                       const std::vector<std::string>& directories);

}  // namespace understudy::xdna
