// AMDGPU_INFO: one row per query. Mirrors amdgpu_kms.c: amdgpu_info_ioctl.
#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/render/address_limits.h"
#include "sim/kfd/render/ip_versions.h"
#include "sim/kfd/render/rings.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

// GB_ADDR_CONFIG, the one register every winsys asks for.
constexpr std::uint32_t kGbAddrConfigOffset = 0x263e;
constexpr std::uint32_t kMaxRegisters = 128;
constexpr std::uint64_t kUsableReserveBytes = std::uint64_t{8} << 20;  // AMDGPU_VM_RESERVED_VRAM
constexpr std::uint32_t kMaxShaderEngines = 4;                         // AMDGPU_GFX_MAX_SE
constexpr std::uint32_t kMaxArraysPerEngine = 2;                       // AMDGPU_GFX_MAX_SH_PER_SE

struct Query {
  AmdgpuFile& file;
  Call& call;
  const drm_amdgpu_info& args;

  Gpu& gpu() const { return file.gpu(); }
  const GpuProfile& profile() const { return file.gpu().profile(); }

  // A longer result is cut to what the caller has room for.
  Outcome bytes(std::span<const std::byte> value) const {
    return call.memory().write(args.return_pointer,
                               value.first(std::min<std::size_t>(args.return_size, value.size())));
  }
  template <typename T>
  Outcome answer(const T& value) const {
    return bytes(std::as_bytes(std::span(&value, 1)));
  }
};

Outcome accel_working(const Query& query) {
  return query.answer(std::uint32_t{1});
}
Outcome vram_lost_counter(const Query& query) {
  return query.answer(query.gpu().vram_lost_count());
}
Outcome zero_u64(const Query& query) {
  return query.answer(std::uint64_t{0});
}
Outcome timestamp(const Query& query) {
  return query.answer(query.gpu().clock_counter());
}
Outcome vram_usage(const Query& query) {
  return query.answer(query.gpu().vram_used_bytes());
}
Outcome gtt_usage(const Query& query) {
  return query.answer(query.gpu().gtt_used_bytes());
}

std::uint64_t visible_vram(const Gpu& gpu) {
  constexpr std::uint64_t kSmallBarBytes = std::uint64_t{256} << 20;
  return gpu.is_large_bar() ? gpu.vram_size_bytes() : std::min(gpu.vram_size_bytes(), kSmallBarBytes);
}

// Alignments of indirect buffers; of types that no GPU here has, only that they are types.
struct HardwareIp {
  std::uint32_t type;
  std::uint32_t ib_start_alignment;
  std::uint32_t ib_size_alignment;
};
constexpr HardwareIp kHardwareIps[] = {
    {AMDGPU_HW_IP_GFX, 32, 32},
    {AMDGPU_HW_IP_COMPUTE, 32, 32},
    {AMDGPU_HW_IP_DMA, 256, 4},
};

const HardwareIp* find_ip(std::uint32_t type) {
  for (const HardwareIp& ip : kHardwareIps) {
    if (ip.type == type) return &ip;
  }
  return nullptr;
}

Outcome hw_ip_info(const Query& query) {
  const auto& asked = query.args.query_hw_ip;
  if (asked.ip_instance >= AMDGPU_HW_IP_INSTANCE_MAX_COUNT || asked.type >= AMDGPU_HW_IP_NUM)
    return Errno(EINVAL);
  drm_amdgpu_info_hw_ip info{};
  if (const HardwareIp* ip = find_ip(asked.type)) {
    const IpVersions versions = ip_versions(query.profile());
    const IpVersion& version = asked.type == AMDGPU_HW_IP_DMA ? versions.sdma : versions.graphics;
    info.hw_ip_version_major = version.driver_major;
    info.hw_ip_version_minor = version.driver_minor;
    info.ip_discovery_version = version.discovery_version();
    info.ib_start_alignment = ip->ib_start_alignment;
    info.ib_size_alignment = ip->ib_size_alignment;
    info.available_rings = (1u << hardware_ring_count(query.profile(), asked.type)) - 1;
  }
  return query.answer(info);
}

// Instances of the block; graphics and compute are one block.
Outcome hw_ip_count(const Query& query) {
  const std::uint32_t type = query.args.query_hw_ip.type;
  if (find_ip(type) == nullptr) return Errno(EINVAL);
  const unsigned xccs = query.profile().compute.xcc_count;
  return query.answer(std::uint32_t{type == AMDGPU_HW_IP_DMA ? sdma_instance_count(query.profile()) : xccs});
}

struct FirmwareRow {
  std::uint32_t type;
  std::uint32_t index;
  const char* name;  // as in fw_version/<name>_fw_version
};
constexpr std::uint32_t kAnyIndex = ~0u;
constexpr FirmwareRow kFirmware[] = {
    {AMDGPU_INFO_FW_VCE, kAnyIndex, "vce"},
    {AMDGPU_INFO_FW_UVD, kAnyIndex, "uvd"},
    {AMDGPU_INFO_FW_GMC, kAnyIndex, "mc"},
    {AMDGPU_INFO_FW_GFX_ME, kAnyIndex, "me"},
    {AMDGPU_INFO_FW_GFX_PFP, kAnyIndex, "pfp"},
    {AMDGPU_INFO_FW_GFX_CE, kAnyIndex, "ce"},
    {AMDGPU_INFO_FW_GFX_RLC, kAnyIndex, "rlc"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_CNTL, kAnyIndex, "rlc_srlc"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_GPM_MEM, kAnyIndex, "rlc_srlg"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_SRM_MEM, kAnyIndex, "rlc_srls"},
    {AMDGPU_INFO_FW_GFX_MEC, 0, "mec"},
    {AMDGPU_INFO_FW_GFX_MEC, 1, "mec2"},
    {AMDGPU_INFO_FW_SMC, kAnyIndex, "smc"},
    // TA_FW_TYPE_PSP_*
    {AMDGPU_INFO_FW_TA, 2, "ta_xgmi"},
    {AMDGPU_INFO_FW_TA, 3, "ta_ras"},
    {AMDGPU_INFO_FW_TA, 4, "ta_hdcp"},
    {AMDGPU_INFO_FW_TA, 5, "ta_dtm"},
    {AMDGPU_INFO_FW_TA, 6, "ta_rap"},
    {AMDGPU_INFO_FW_TA, 7, "ta_securedisplay"},
    {AMDGPU_INFO_FW_SDMA, kAnyIndex, "sdma"},
    {AMDGPU_INFO_FW_SOS, kAnyIndex, "sos"},
    {AMDGPU_INFO_FW_ASD, kAnyIndex, "asd"},
    {AMDGPU_INFO_FW_VCN, kAnyIndex, "vcn"},
    {AMDGPU_INFO_FW_DMCU, kAnyIndex, "dmcu"},
    {AMDGPU_INFO_FW_DMCUB, kAnyIndex, "dmcub"},
    {AMDGPU_INFO_FW_TOC, kAnyIndex, "toc"},
    {AMDGPU_INFO_FW_CAP, kAnyIndex, "cap"},
    {AMDGPU_INFO_FW_GFX_RLCP, kAnyIndex, "rlcp"},
    {AMDGPU_INFO_FW_GFX_RLCV, kAnyIndex, "rlcv"},
    {AMDGPU_INFO_FW_MES_KIQ, kAnyIndex, "mes_kiq"},
    {AMDGPU_INFO_FW_MES, kAnyIndex, "mes"},
    {AMDGPU_INFO_FW_IMU, kAnyIndex, "imu"},
    {AMDGPU_INFO_FW_VPE, kAnyIndex, "vpe"},
};

Outcome fw_version(const Query& query) {
  const drm_amdgpu_query_fw& asked = query.args.query_fw;
  if (asked.ip_instance != 0) return Errno(EINVAL);
  const auto known = std::find_if(std::begin(kFirmware), std::end(kFirmware), [&](const FirmwareRow& row) {
    return row.type == asked.fw_type && (row.index == kAnyIndex || row.index == asked.index);
  });
  if (known == std::end(kFirmware)) return Errno(EINVAL);
  if (asked.fw_type == AMDGPU_INFO_FW_SDMA && asked.index >= sdma_instance_count(query.profile()))
    return Errno(EINVAL);
  drm_amdgpu_info_firmware info{};
  for (const FirmwareVersion& firmware : query.profile().firmware) {
    if (firmware.name == known->name) info.ver = firmware.version;
  }
  return query.answer(info);
}

Outcome gds_config(const Query& query) {
  return query.answer(drm_amdgpu_info_gds{});
}

std::uint64_t usable_vram(const Gpu& gpu) {
  return gpu.vram_size_bytes() - std::min(gpu.vram_size_bytes(), kUsableReserveBytes);
}

Outcome vram_gtt(const Query& query) {
  const Gpu& gpu = query.gpu();
  const std::uint64_t usable = usable_vram(gpu);
  return query.answer(
      drm_amdgpu_info_vram_gtt{usable, std::min(visible_vram(gpu), usable), gpu.gtt_size_bytes()});
}

drm_amdgpu_heap_info heap_of(std::uint64_t total, std::uint64_t usable, std::uint64_t used) {
  return {total, usable, used, usable * 3 / 4};
}

Outcome memory(const Query& query) {
  const Gpu& gpu = query.gpu();
  const std::uint64_t usable = usable_vram(gpu);
  const std::uint64_t visible = visible_vram(gpu);
  return query.answer(drm_amdgpu_memory_info{
      heap_of(gpu.vram_size_bytes(), usable, gpu.vram_used_bytes()),
      heap_of(visible, std::min(visible, usable), std::min(visible, gpu.vram_used_bytes())),
      heap_of(gpu.gtt_size_bytes(), gpu.gtt_size_bytes(), gpu.gtt_used_bytes())});
}

Outcome vis_vram_usage(const Query& query) {
  return query.answer(std::min(visible_vram(query.gpu()), query.gpu().vram_used_bytes()));
}

// Only the register every winsys needs is readable; the driver's list has some more.
Outcome read_mmr_reg(const Query& query) {
  const auto& asked = query.args.read_mmr_reg;
  const std::uint32_t engine =
      (asked.instance >> AMDGPU_INFO_MMR_SE_INDEX_SHIFT) & AMDGPU_INFO_MMR_SE_INDEX_MASK;
  const std::uint32_t array =
      (asked.instance >> AMDGPU_INFO_MMR_SH_INDEX_SHIFT) & AMDGPU_INFO_MMR_SH_INDEX_MASK;
  if (engine != AMDGPU_INFO_MMR_SE_INDEX_MASK && engine >= kMaxShaderEngines) return Errno(EINVAL);
  if (array != AMDGPU_INFO_MMR_SH_INDEX_MASK && array >= kMaxArraysPerEngine) return Errno(EINVAL);
  if (asked.count > kMaxRegisters) return Errno(EINVAL);
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < asked.count; ++i) {
    if (asked.dword_offset + i != kGbAddrConfigOffset) return Errno(EFAULT);
    values.push_back(query.profile().gb_addr_config);
  }
  return query.bytes(std::as_bytes(std::span(values)));
}

std::uint32_t cache_bytes(const GpuProfile& profile, unsigned level, unsigned type) {
  for (const CacheProfile& cache : profile.caches) {
    if (cache.level == level && cache.type == type) return static_cast<std::uint32_t>(cache.size_kb * 1024);
  }
  return 0;
}

// The bitmap has room for four engines: further ones follow in the columns (gfx_v9_0_get_cu_info).
void fill_compute_units(const ComputeLayout& compute, drm_amdgpu_info_device& info) {
  constexpr unsigned kRows = 4, kColumns = 4;
  info.cu_active_number = compute.active_cus;
  for (unsigned engine = 0; engine < compute.shader_engines; ++engine) {
    for (unsigned array = 0; array < compute.arrays_per_engine; ++array) {
      const unsigned column = array + engine / kRows * compute.arrays_per_engine;
      if (column >= kColumns) continue;
      info.cu_bitmap[engine % kRows][column] = compute.active_mask(0, engine, array);
      info.cu_ao_bitmap[engine % kRows][column] = info.cu_bitmap[engine % kRows][column];
    }
  }
}

std::uint64_t lowest_khz(const std::vector<std::uint64_t>& levels_mhz, std::uint64_t fallback_mhz) {
  return (levels_mhz.empty() ? fallback_mhz : levels_mhz.front()) * 1000;
}

Outcome dev_info(const Query& query) {
  const GpuProfile& profile = query.profile();
  const ComputeLayout& compute = profile.compute;
  constexpr unsigned kDataCache = 9, kInstructionCache = 10;  // HSACU | DATA, HSACU | INSTRUCTION
  drm_amdgpu_info_device info{};
  info.device_id = profile.pci.device;
  info.chip_rev = profile.external_revision & 0xf;
  info.external_rev = profile.external_revision;
  info.pci_rev = profile.pci.revision;
  info.family = profile.family_id;
  info.num_shader_engines = compute.shader_engines;
  info.num_shader_arrays_per_engine = compute.arrays_per_engine;
  info.gpu_counter_freq = 100'000;  // kHz
  const std::uint64_t engine_mhz = profile.property("max_engine_clk_fcompute");
  info.max_engine_clock = engine_mhz * 1000;
  info.min_engine_clock = lowest_khz(profile.sensors.sclk, engine_mhz);
  info.max_memory_clock = std::uint64_t{profile.memory_clock_mhz} * 1000;
  info.min_memory_clock = lowest_khz(profile.sensors.mclk, profile.memory_clock_mhz);
  fill_compute_units(compute, info);
  info.num_rb_pipes = compute.shader_engines * compute.arrays_per_engine * 4;
  info.enabled_rb_pipes_mask =
      info.num_rb_pipes >= 32 ? 0xffffffff : (std::uint32_t{1} << info.num_rb_pipes) - 1;
  info.num_hw_gfx_contexts = 8;
  info.pcie_gen = profile.pci.link_generation;
  info.pcie_num_lanes = profile.pci.link_width;
  info.ids_flags = profile.is_apu ? AMDGPU_IDS_FLAGS_FUSION : 0;
  info.virtual_address_offset = kVaReservedBottomBytes;
  info.virtual_address_max = std::min(kVmSizeBytes - kVaReservedTopBytes, kHoleStart);
  info.virtual_address_alignment = 4096;
  info.high_va_offset = kHoleEnd;
  info.high_va_max = kHoleEnd | (kVmSizeBytes - kVaReservedTopBytes);
  info.pte_fragment_size = 2 << 20;
  info.gart_page_size = 4096;
  info.vram_type = profile.vram_type;
  info.vram_bit_width = profile.memory_width_bits;
  info.wave_front_size = static_cast<std::uint32_t>(profile.property("wave_front_size"));
  info.num_shader_visible_vgprs = 256;
  info.num_cu_per_sh = compute.cus_per_array;
  info.num_tcc_blocks = 16;
  info.tcp_cache_size = cache_bytes(profile, 1, kDataCache) / 1024;
  info.sqc_inst_cache_size = cache_bytes(profile, 1, kInstructionCache) / 1024;
  info.gl2c_cache_size = cache_bytes(profile, 2, kDataCache);
  info.mall_size = cache_bytes(profile, 3, kDataCache);
  return query.answer(info);
}

template <std::size_t Size>
void set_text(std::uint8_t (&field)[Size], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

Outcome vbios(const Query& query) {
  switch (query.args.vbios_info.type) {
    case AMDGPU_INFO_VBIOS_SIZE:
      return query.answer(std::uint32_t{0});
    case AMDGPU_INFO_VBIOS_IMAGE:
      // There is no image; any offset lies beyond its end.
      return Errno(EINVAL);
    case AMDGPU_INFO_VBIOS_INFO: {
      drm_amdgpu_info_vbios info{};
      set_text(info.name, query.profile().marketing_name);
      set_text(info.vbios_pn, query.profile().vbios_version);
      set_text(info.vbios_ver_str, query.profile().vbios_version);
      return query.answer(info);
    }
    default:
      return Errno(EINVAL);
  }
}

// Handles of the oldest video decoder, which none of these GPUs has.
Outcome num_handles(const Query& query) {
  return query.args.query_hw_ip.type == AMDGPU_HW_IP_UVD ? Errno(ENODATA) : Errno(EINVAL);
}

Outcome vce_clock_table(const Query& query) {
  return query.answer(drm_amdgpu_info_vce_clock_table{});
}

Outcome sensor(const Query& query) {
  const SensorProfile& sensors = query.profile().sensors;
  const auto lowest = [](const std::vector<std::uint64_t>& levels) {
    return levels.empty() ? 0u : static_cast<std::uint32_t>(levels.front());
  };
  const auto highest = [](const std::vector<std::uint64_t>& levels) {
    return levels.empty() ? 0u : static_cast<std::uint32_t>(levels.back());
  };
  switch (query.args.sensor_info.type) {
    case AMDGPU_INFO_SENSOR_GFX_SCLK:
    case AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_SCLK:
      return query.answer(lowest(sensors.sclk));
    case AMDGPU_INFO_SENSOR_GFX_MCLK:
    case AMDGPU_INFO_SENSOR_STABLE_PSTATE_GFX_MCLK:
      return query.answer(lowest(sensors.mclk));
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK:
      return query.answer(highest(sensors.sclk));
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK:
      return query.answer(highest(sensors.mclk));
    case AMDGPU_INFO_SENSOR_GPU_TEMP:
      return query.answer(std::uint32_t{sensors.edge_celsius * 1000});
    case AMDGPU_INFO_SENSOR_GPU_LOAD:
      return query.answer(std::uint32_t{0});
    case AMDGPU_INFO_SENSOR_GPU_AVG_POWER:
    case AMDGPU_INFO_SENSOR_GPU_INPUT_POWER:
      return query.answer(std::uint32_t{sensors.idle_power_watts});
    case AMDGPU_INFO_SENSOR_VDDGFX:
      return sensors.voltage_mv == 0 ? Outcome(Errno(EINVAL))
                                     : query.answer(std::uint32_t{sensors.voltage_mv});
    default:
      return Errno(EINVAL);
  }
}

Outcome ras_enabled_features(const Query& query) {
  if (query.profile().ras_features == 0) return Errno(EINVAL);
  const std::uint64_t features = query.profile().ras_features;
  return query.answer(features << 32 | features);
}

Outcome video_caps(const Query& query) {
  if (query.args.video_cap.type > AMDGPU_INFO_VIDEO_CAPS_ENCODE) return Errno(EINVAL);
  return query.answer(drm_amdgpu_info_video_caps{});
}

Outcome max_ibs(const Query& query) {
  return query.answer(kMaxIbs);
}

Outcome gpuvm_fault(const Query& query) {
  return query.answer(query.file.faults()->last());
}

struct QueryRow {
  std::uint32_t query;
  Outcome (*answer)(const Query&);
};
constexpr QueryRow kQueries[] = {
    {AMDGPU_INFO_ACCEL_WORKING, accel_working},
    {AMDGPU_INFO_HW_IP_INFO, hw_ip_info},
    {AMDGPU_INFO_HW_IP_COUNT, hw_ip_count},
    {AMDGPU_INFO_TIMESTAMP, timestamp},
    {AMDGPU_INFO_FW_VERSION, fw_version},
    {AMDGPU_INFO_NUM_BYTES_MOVED, zero_u64},
    {AMDGPU_INFO_VRAM_USAGE, vram_usage},
    {AMDGPU_INFO_GTT_USAGE, gtt_usage},
    {AMDGPU_INFO_GDS_CONFIG, gds_config},
    {AMDGPU_INFO_VRAM_GTT, vram_gtt},
    {AMDGPU_INFO_READ_MMR_REG, read_mmr_reg},
    {AMDGPU_INFO_DEV_INFO, dev_info},
    {AMDGPU_INFO_VIS_VRAM_USAGE, vis_vram_usage},
    {AMDGPU_INFO_NUM_EVICTIONS, zero_u64},
    {AMDGPU_INFO_MEMORY, memory},
    {AMDGPU_INFO_VCE_CLOCK_TABLE, vce_clock_table},
    {AMDGPU_INFO_VBIOS, vbios},
    {AMDGPU_INFO_NUM_HANDLES, num_handles},
    {AMDGPU_INFO_SENSOR, sensor},
    {AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS, zero_u64},
    {AMDGPU_INFO_VRAM_LOST_COUNTER, vram_lost_counter},
    {AMDGPU_INFO_RAS_ENABLED_FEATURES, ras_enabled_features},
    {AMDGPU_INFO_VIDEO_CAPS, video_caps},
    {AMDGPU_INFO_MAX_IBS, max_ibs},
    {AMDGPU_INFO_GPUVM_FAULT, gpuvm_fault},
};

}  // namespace

Outcome AmdgpuFile::info(Call& call, drm_amdgpu_info& args) {
  if (args.return_size == 0 || args.return_pointer == 0) return Errno(EINVAL);
  for (const QueryRow& row : kQueries) {
    if (row.query == args.query) return row.answer(Query{*this, call, args});
  }
  return Errno(EINVAL);
}

}  // namespace understudy::kfd
