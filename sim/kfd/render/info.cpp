// AMDGPU_INFO: one row per query. Mirrors amdgpu_kms.c: amdgpu_info_ioctl.
#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/render/address_limits.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

// GB_ADDR_CONFIG, the one register every winsys asks for.
constexpr std::uint32_t kGbAddrConfigOffset = 0x263e;
constexpr std::uint32_t kMaxRegisters = 128;
constexpr std::uint64_t kUsableReserveBytes = std::uint64_t{8} << 20;  // AMDGPU_VM_RESERVED_VRAM
constexpr std::uint32_t kMaxIbs = 192;

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

// Rings that command submissions may name; compute and DMA on every profile, graphics where there is a pipe.
struct HardwareIp {
  std::uint32_t type;
  std::uint32_t rings;
  std::uint32_t ib_start_alignment;
  std::uint32_t ib_size_alignment;
};
constexpr HardwareIp kHardwareIps[] = {
    {AMDGPU_HW_IP_GFX, 0x1, 32, 32},
    {AMDGPU_HW_IP_COMPUTE, 0xf, 32, 32},
    {AMDGPU_HW_IP_DMA, 0x3, 256, 4},
};

const HardwareIp* find_ip(const GpuProfile& profile, std::uint32_t type) {
  // Instinct parts have no graphics pipe.
  constexpr std::uint32_t kProcessingAccelerator = 0x120000;
  for (const HardwareIp& ip : kHardwareIps) {
    if (ip.type != type) continue;
    return type == AMDGPU_HW_IP_GFX && profile.pci.class_code == kProcessingAccelerator ? nullptr : &ip;
  }
  return nullptr;
}

std::pair<std::uint32_t, std::uint32_t> ip_version(const GpuProfile& profile, std::uint32_t type) {
  const std::uint64_t gfx = profile.property("gfx_target_version");
  if (type == AMDGPU_HW_IP_DMA) return {profile.sdma_major, 0};
  return {static_cast<std::uint32_t>(gfx / 10000), static_cast<std::uint32_t>(gfx / 100 % 100)};
}

Outcome hw_ip_info(const Query& query) {
  const auto& asked = query.args.query_hw_ip;
  if (asked.ip_instance >= AMDGPU_HW_IP_INSTANCE_MAX_COUNT || asked.type >= AMDGPU_HW_IP_NUM)
    return Errno(EINVAL);
  drm_amdgpu_info_hw_ip info{};
  if (const HardwareIp* ip = find_ip(query.profile(), asked.type)) {
    const auto [major, minor] = ip_version(query.profile(), asked.type);
    info.hw_ip_version_major = major;
    info.hw_ip_version_minor = minor;
    info.ib_start_alignment = ip->ib_start_alignment;
    info.ib_size_alignment = ip->ib_size_alignment;
    info.available_rings = ip->rings;
    info.ip_discovery_version = major << 16 | minor << 8;
  }
  return query.answer(info);
}

Outcome hw_ip_count(const Query& query) {
  if (find_ip(query.profile(), query.args.query_hw_ip.type) == nullptr) return Errno(EINVAL);
  return query.answer(std::uint32_t{1});
}

struct FirmwareRow {
  std::uint32_t type;
  const char* name;  // as in fw_version/<name>_fw_version
};
constexpr FirmwareRow kFirmware[] = {
    {AMDGPU_INFO_FW_VCE, "vce"},
    {AMDGPU_INFO_FW_UVD, "uvd"},
    {AMDGPU_INFO_FW_GMC, "mc"},
    {AMDGPU_INFO_FW_GFX_ME, "me"},
    {AMDGPU_INFO_FW_GFX_PFP, "pfp"},
    {AMDGPU_INFO_FW_GFX_CE, "ce"},
    {AMDGPU_INFO_FW_GFX_RLC, "rlc"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_CNTL, "rlc_srlc"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_GPM_MEM, "rlc_srlg"},
    {AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_SRM_MEM, "rlc_srls"},
    {AMDGPU_INFO_FW_GFX_MEC, "mec"},
    {AMDGPU_INFO_FW_SMC, "smc"},
    {AMDGPU_INFO_FW_TA, "ta_xgmi"},
    {AMDGPU_INFO_FW_SDMA, "sdma"},
    {AMDGPU_INFO_FW_SOS, "sos"},
    {AMDGPU_INFO_FW_ASD, "asd"},
    {AMDGPU_INFO_FW_VCN, "vcn"},
    {AMDGPU_INFO_FW_DMCU, "dmcu"},
    {AMDGPU_INFO_FW_DMCUB, "dmcub"},
    {AMDGPU_INFO_FW_TOC, "toc"},
    {AMDGPU_INFO_FW_CAP, "cap"},
    {AMDGPU_INFO_FW_GFX_RLCP, "rlcp"},
    {AMDGPU_INFO_FW_GFX_RLCV, "rlcv"},
    {AMDGPU_INFO_FW_MES_KIQ, "mes_kiq"},
    {AMDGPU_INFO_FW_MES, "mes"},
    {AMDGPU_INFO_FW_IMU, "imu"},
    {AMDGPU_INFO_FW_VPE, "vpe"},
};

Outcome fw_version(const Query& query) {
  const drm_amdgpu_query_fw& asked = query.args.query_fw;
  if (asked.ip_instance != 0) return Errno(EINVAL);
  const auto known = std::find_if(std::begin(kFirmware), std::end(kFirmware),
                                  [&](const FirmwareRow& row) { return row.type == asked.fw_type; });
  if (known == std::end(kFirmware)) return Errno(EINVAL);
  drm_amdgpu_info_firmware info{};
  for (const FirmwareVersion& firmware : query.profile().firmware) {
    if (firmware.name == known->name) info.ver = firmware.version;
  }
  return query.answer(info);
}

Outcome gds_config(const Query& query) {
  return query.answer(drm_amdgpu_info_gds{});
}

Outcome vram_gtt(const Query& query) {
  const Gpu& gpu = query.gpu();
  return query.answer(
      drm_amdgpu_info_vram_gtt{gpu.vram_size_bytes(), visible_vram(gpu), gpu.gtt_size_bytes()});
}

drm_amdgpu_heap_info heap_of(std::uint64_t total, std::uint64_t reserved, std::uint64_t used) {
  const std::uint64_t usable = total > reserved ? total - reserved : 0;
  return {total, usable, used, usable / 4 * 3};
}

Outcome memory(const Query& query) {
  const Gpu& gpu = query.gpu();
  const std::uint64_t visible = visible_vram(gpu);
  return query.answer(
      drm_amdgpu_memory_info{heap_of(gpu.vram_size_bytes(), kUsableReserveBytes, gpu.vram_used_bytes()),
                             heap_of(visible, kUsableReserveBytes, std::min(visible, gpu.vram_used_bytes())),
                             heap_of(gpu.gtt_size_bytes(), 0, gpu.gtt_used_bytes())});
}

Outcome read_mmr_reg(const Query& query) {
  const auto& asked = query.args.read_mmr_reg;
  if (asked.count == 0 || asked.count > kMaxRegisters) return Errno(EINVAL);
  const ComputeLayout& compute = query.profile().compute;
  const std::uint32_t engine = asked.instance & AMDGPU_INFO_MMR_SE_INDEX_MASK;
  const std::uint32_t array =
      (asked.instance >> AMDGPU_INFO_MMR_SH_INDEX_SHIFT) & AMDGPU_INFO_MMR_SH_INDEX_MASK;
  if (engine != 0xff && engine >= compute.shader_engines) return Errno(EINVAL);
  if (array != 0xff && array >= compute.arrays_per_engine) return Errno(EINVAL);
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < asked.count; ++i) {
    // Registers outside the driver's allow-list.
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

void fill_compute_units(const ComputeLayout& compute, drm_amdgpu_info_device& info) {
  info.cu_active_number = compute.active_cus;
  for (unsigned engine = 0; engine < std::min(compute.shader_engines, 4u); ++engine) {
    for (unsigned array = 0; array < std::min(compute.arrays_per_engine, 4u); ++array) {
      info.cu_bitmap[engine][array] = compute.active_mask(0, engine, array);
      info.cu_ao_bitmap[engine][array] = info.cu_bitmap[engine][array];
    }
  }
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
  info.max_engine_clock = profile.property("max_engine_clk_fcompute") * 1000;
  info.max_memory_clock = std::uint64_t{profile.memory_clock_mhz} * 1000;
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

Outcome num_handles(const Query&) {
  return Errno(ENODATA);
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
  return query.answer(std::uint64_t{query.profile().ras_features});
}

Outcome video_caps(const Query& query) {
  if (query.args.video_cap.type > AMDGPU_INFO_VIDEO_CAPS_ENCODE) return Errno(EINVAL);
  return query.answer(drm_amdgpu_info_video_caps{});
}

Outcome max_ibs(const Query& query) {
  std::uint32_t counts[AMDGPU_HW_IP_NUM] = {};
  for (const HardwareIp& ip : kHardwareIps) {
    if (find_ip(query.profile(), ip.type)) counts[ip.type] = kMaxIbs;
  }
  return query.answer(counts);
}

Outcome gpuvm_fault(const Query& query) {
  return query.answer(drm_amdgpu_info_gpuvm_fault{});
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
    {AMDGPU_INFO_VIS_VRAM_USAGE, vram_usage},
    {AMDGPU_INFO_NUM_EVICTIONS, zero_u64},
    {AMDGPU_INFO_MEMORY, memory},
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
