// GET_INFO and SET_STATE: what the device tells about itself and its contexts. Mirrors aie2_pci.c:
// aie2_get_info, aie2_set_state.
#include <linux/capability.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

constexpr unsigned kTelemetryTypes = 5;
constexpr std::uint32_t kTelemetryDataBytes = 4096;

amdxdna_drm_query_aie_tile_metadata tile_metadata(const TileMetadata& tile) {
  return {tile.row_count, tile.row_start, tile.dma_channel_count, tile.lock_count, tile.event_reg_count, {}};
}

template <std::size_t Size>
void set_text(std::uint8_t (&field)[Size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

// One query's answer; the parameter's row knows how.
struct Query {
  XdnaFile& file;
  Call& call;
  amdxdna_drm_get_info& args;

  Npu& npu() const { return file.npu(); }

  // Fixed-size answers are silently cut to the caller's buffer.
  template <typename T>
  Outcome answer(const T& value) const {
    const std::size_t bytes = std::min<std::size_t>(args.buffer_size, sizeof value);
    return call.memory().write(args.buffer, std::as_bytes(std::span(&value, 1)).first(bytes));
  }
};

Outcome aie_status(const Query& query) {
  auto status = query.call.memory().read_value<amdxdna_drm_query_aie_status>(query.args.buffer);
  if (!status) return Errno(EFAULT);
  const NpuProfile& profile = query.npu().profile();
  const std::uint64_t needed = std::uint64_t{profile.column_status_bytes} * profile.columns;
  if (status.value().buffer_size < needed) return Errno(EINVAL);
  // Idle columns: all zero.
  const std::vector<std::byte> dump(needed);
  TRY(query.call.memory().write(status.value().buffer, dump));
  status.value().buffer_size = static_cast<std::uint32_t>(needed);
  status.value().cols_filled = (1u << profile.columns) - 1;
  return query.answer(status.value());
}

Outcome aie_metadata(const Query& query) {
  const NpuProfile& profile = query.npu().profile();
  amdxdna_drm_query_aie_metadata metadata{};
  metadata.col_size = profile.column_status_bytes;
  metadata.cols = profile.columns;
  metadata.rows = profile.rows;
  metadata.version = {profile.aie_version[0], profile.aie_version[1]};
  metadata.core = tile_metadata(profile.core);
  metadata.mem = tile_metadata(profile.memory);
  metadata.shim = tile_metadata(profile.shim);
  return query.answer(metadata);
}

Outcome aie_version(const Query& query) {
  const auto& version = query.npu().profile().aie_version;
  return query.answer(amdxdna_drm_query_aie_version{version[0], version[1]});
}

Outcome clock_metadata(const Query& query) {
  amdxdna_drm_query_clock_metadata clocks{};
  set_text(clocks.mp_npu_clock.name, "MP-NPU Clock");
  clocks.mp_npu_clock.freq_mhz = query.npu().dpm_level().npu_clock_mhz;
  set_text(clocks.h_clock.name, "H Clock");
  clocks.h_clock.freq_mhz = query.npu().dpm_level().h_clock_mhz;
  return query.answer(clocks);
}

Outcome hw_contexts(const Query& query) {
  std::uint32_t remaining = query.args.buffer_size;
  std::uint64_t at = query.args.buffer;
  for (const auto& context : query.npu().contexts()) {
    if (remaining < sizeof(amdxdna_drm_query_hwctx)) break;
    const ContextCounters counters = context->counters();
    amdxdna_drm_query_hwctx entry{};
    entry.context_id = context->id();
    entry.start_col = context->first_column();
    entry.num_col = context->occupied_columns();
    entry.pid = context->owner()->pid();
    entry.command_submissions = counters.submissions;
    entry.command_completions = counters.completions;
    entry.migrations = counters.migrations;
    entry.preemptions = counters.preemptions;
    entry.errors = counters.errors;
    TRY(query.call.memory().write_value(at, entry));
    at += sizeof entry;
    remaining -= sizeof entry;
  }
  // What is left of the buffer, not what was used.
  query.args.buffer_size = remaining;
  return 0;
}

Outcome firmware_version(const Query& query) {
  const auto& version = query.npu().profile().firmware_version;
  return query.answer(amdxdna_drm_query_firmware_version{version[0], version[1], version[2], version[3]});
}

Outcome power_mode(const Query& query) {
  return query.answer(amdxdna_drm_get_power_mode{query.npu().power_mode(), {}});
}

Outcome telemetry(const Query& query) {
  if (query.npu().flavour() == DriverFlavour::kFirst) return Errno(EOPNOTSUPP);
  if (!query.call.client().has_capability(CAP_SYS_ADMIN)) {
    for (const auto& context : query.npu().contexts()) {
      if (context->owner()->uid() != query.call.client().uid()) return Errno(EPERM);
    }
  }
  if (query.args.buffer_size <= sizeof(amdxdna_drm_query_telemetry_header)) return Errno(EINVAL);
  amdxdna_drm_query_telemetry_header header;
  const auto header_bytes = std::as_writable_bytes(std::span(&header, 1));
  TRY(query.call.memory().read(query.args.buffer, header_bytes));
  if (header.type >= kTelemetryTypes) return Errno(EINVAL);
  // Firmware's counters are not public: the map lists the contexts, the data stays zero.
  std::vector<std::uint32_t> map;
  for (const auto& context : query.npu().contexts()) map.push_back(context->id());
  const std::size_t room =
      (query.args.buffer_size - sizeof(amdxdna_drm_query_telemetry_header)) / sizeof(std::uint32_t);
  map.resize(std::min(map.size(), room));
  header.major = 1;
  header.minor = 0;
  header.map_num_elements = static_cast<std::uint32_t>(map.size());
  TRY(query.call.memory().write(query.args.buffer, header_bytes));
  const std::uint64_t map_address = query.args.buffer + sizeof(amdxdna_drm_query_telemetry_header);
  TRY(query.call.memory().write(map_address, std::as_bytes(std::span(map))));
  const std::size_t data_room =
      query.args.buffer_size - sizeof(amdxdna_drm_query_telemetry_header) - map.size() * 4;
  const std::vector<std::byte> data(std::min<std::size_t>(data_room, kTelemetryDataBytes));
  return query.call.memory().write(map_address + map.size() * 4, data);
}

Outcome preempt_state(const Query& query, std::uint8_t state) {
  if (!query.npu().profile().can_preempt()) return Errno(EOPNOTSUPP);
  return query.answer(amdxdna_drm_attribute_state{state, {}});
}

Outcome force_preempt(const Query& query) {
  return preempt_state(query, query.npu().force_preempt.load());
}

Outcome frame_boundary_preempt(const Query& query) {
  return preempt_state(query, query.npu().frame_boundary_preempt.load());
}

Outcome resource_info(const Query& query) {
  const NpuProfile& profile = query.npu().profile();
  amdxdna_drm_get_resource_info info{};
  info.npu_clk_max = profile.dpm_levels.back().h_clock_mhz;
  info.npu_tops_max = profile.tops_max;
  info.npu_task_max = profile.context_limit;
  info.npu_tops_curr =
      profile.tops_max * query.npu().dpm_level().h_clock_mhz / profile.dpm_levels.back().h_clock_mhz;
  info.npu_task_curr = query.npu().contexts().size();
  return query.answer(info);
}

Outcome automatic_coredump(const Query& query) {
  if (query.npu().flavour() != DriverFlavour::kOutOfTree) return Errno(EOPNOTSUPP);
  return query.answer(amdxdna_drm_attribute_state{query.npu().automatic_coredump.load(), {}});
}

struct QueryRow {
  std::uint32_t param;
  Outcome (*answer)(const Query&);
};
// What is missing (sensors without the platform driver, tile access, npu3's CERT firmware) answers
// EOPNOTSUPP.
constexpr QueryRow kQueries[] = {
    {DRM_AMDXDNA_QUERY_AIE_STATUS, aie_status},
    {DRM_AMDXDNA_QUERY_AIE_METADATA, aie_metadata},
    {DRM_AMDXDNA_QUERY_AIE_VERSION, aie_version},
    {DRM_AMDXDNA_QUERY_CLOCK_METADATA, clock_metadata},
    {DRM_AMDXDNA_QUERY_HW_CONTEXTS, hw_contexts},
    {DRM_AMDXDNA_QUERY_FIRMWARE_VERSION, firmware_version},
    {DRM_AMDXDNA_GET_POWER_MODE, power_mode},
    {DRM_AMDXDNA_QUERY_TELEMETRY, telemetry},
    {DRM_AMDXDNA_GET_FORCE_PREEMPT_STATE, force_preempt},
    {DRM_AMDXDNA_QUERY_RESOURCE_INFO, resource_info},
    {DRM_AMDXDNA_GET_FRAME_BOUNDARY_PREEMPT_STATE, frame_boundary_preempt},
    {DRM_AMDXDNA_GET_AUTO_COREDUMP, automatic_coredump},
};

Outcome set_power_mode(Npu& npu, Call& call, std::uint64_t buffer) {
  const auto mode = call.memory().read_value<amdxdna_drm_set_power_mode>(buffer);
  if (!mode) return Errno(EFAULT);
  const bool pad_is_zero = std::all_of(std::begin(mode.value().pad), std::end(mode.value().pad),
                                       [](std::uint8_t byte) { return byte == 0; });
  if (mode.value().power_mode > POWER_MODE_TURBO || !pad_is_zero) return Errno(EINVAL);
  npu.set_power_mode(mode.value().power_mode);
  return 0;
}

Outcome set_attribute(Call& call, std::uint64_t buffer, std::atomic<std::uint8_t>& attribute) {
  const auto state = call.memory().read_value<amdxdna_drm_attribute_state>(buffer);
  if (!state) return Errno(EFAULT);
  if (state.value().state > 1) return Errno(EINVAL);
  attribute.store(state.value().state);
  return 0;
}

}  // namespace

Outcome XdnaFile::get_info(Call& call, amdxdna_drm_get_info& args) {
  for (const QueryRow& row : kQueries) {
    if (row.param == args.param) return row.answer(Query{*this, call, args});
  }
  return Errno(EOPNOTSUPP);
}

Outcome XdnaFile::set_state(Call& call, amdxdna_drm_set_state& args) {
  switch (args.param) {
    case DRM_AMDXDNA_SET_POWER_MODE:
      return set_power_mode(npu(), call, args.buffer);
    case DRM_AMDXDNA_SET_FORCE_PREEMPT:
      if (!npu().profile().can_preempt()) return Errno(EOPNOTSUPP);
      return set_attribute(call, args.buffer, npu().force_preempt);
    case DRM_AMDXDNA_SET_FRAME_BOUNDARY_PREEMPT:
      if (!npu().profile().can_preempt()) return Errno(EOPNOTSUPP);
      return set_attribute(call, args.buffer, npu().frame_boundary_preempt);
    case DRM_AMDXDNA_SET_AUTO_COREDUMP:
      if (npu().flavour() != DriverFlavour::kOutOfTree) return Errno(EOPNOTSUPP);
      return set_attribute(call, args.buffer, npu().automatic_coredump);
    default:
      return Errno(EOPNOTSUPP);
  }
}

}  // namespace understudy::xdna
