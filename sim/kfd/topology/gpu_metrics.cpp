#include "sim/kfd/topology/gpu_metrics.h"

#include <time.h>

#include <cstdint>
#include <cstring>

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kEnergyUnitsPerJoule = 65536;  // 15.259 uJ each

struct Header {
  std::uint16_t structure_size;
  std::uint8_t format_revision;
  std::uint8_t content_revision;
};

struct GpuMetricsV1_3 {
  static constexpr std::uint8_t kFormat = 1, kContent = 3;
  Header header;
  std::uint16_t temperature_edge, temperature_hotspot, temperature_mem;  // degrees Celsius
  std::uint16_t temperature_vrgfx, temperature_vrsoc, temperature_vrmem;
  std::uint16_t average_gfx_activity, average_umc_activity, average_mm_activity;             // per cent
  std::uint16_t average_socket_power;                                                        // W
  std::uint64_t energy_accumulator;                                                          // 1/65536 J
  std::uint64_t system_clock_counter;                                                        // ns
  std::uint16_t average_gfxclk_frequency, average_socclk_frequency, average_uclk_frequency;  // MHz
  std::uint16_t average_vclk0_frequency, average_dclk0_frequency;
  std::uint16_t average_vclk1_frequency, average_dclk1_frequency;
  std::uint16_t current_gfxclk, current_socclk, current_uclk;
  std::uint16_t current_vclk0, current_dclk0, current_vclk1, current_dclk1;
  std::uint32_t throttle_status;
  std::uint16_t current_fan_speed;                 // rpm
  std::uint16_t pcie_link_width, pcie_link_speed;  // lanes, 0.1 GT/s
  std::uint16_t padding;
  std::uint32_t gfx_activity_acc, mem_activity_acc;
  std::uint16_t temperature_hbm[4];
  std::uint64_t firmware_timestamp;                     // 10 ns
  std::uint16_t voltage_soc, voltage_gfx, voltage_mem;  // mV
  std::uint16_t padding1;
  std::uint64_t indep_throttle_status;
};
static_assert(sizeof(GpuMetricsV1_3) == 120);

struct GpuMetricsV3_0 {
  static constexpr std::uint8_t kFormat = 3, kContent = 0;
  Header header;
  std::uint16_t temperature_gfx, temperature_soc, temperature_core[16], temperature_skin;  // 0.01 degrees
  std::uint16_t average_gfx_activity, average_vcn_activity;                                // per cent
  std::uint16_t average_ipu_activity[8], average_core_c0_activity[16];
  std::uint16_t average_dram_reads, average_dram_writes, average_ipu_reads, average_ipu_writes;  // MB/s
  std::uint64_t system_clock_counter;                                                            // ns
  std::uint32_t average_socket_power;                                                            // mW
  std::uint16_t average_ipu_power;
  std::uint32_t average_apu_power, average_gfx_power, average_dgpu_power, average_all_core_power;
  std::uint16_t average_core_power[16];
  std::uint16_t average_sys_power, stapm_power_limit, current_stapm_power_limit;
  std::uint16_t average_gfxclk_frequency, average_socclk_frequency, average_vpeclk_frequency;  // MHz
  std::uint16_t average_ipuclk_frequency, average_fclk_frequency, average_vclk_frequency;
  std::uint16_t average_uclk_frequency, average_mpipu_frequency;
  std::uint16_t current_coreclk[16];
  std::uint16_t current_core_maxfreq, current_gfx_maxfreq;
  std::uint32_t throttle_residency_prochot, throttle_residency_spl, throttle_residency_fppt;
  std::uint32_t throttle_residency_sppt, throttle_residency_thm_core, throttle_residency_thm_gfx;
  std::uint32_t throttle_residency_thm_soc;
  std::uint32_t time_filter_alphavalue;  // us
};
static_assert(sizeof(GpuMetricsV3_0) == 264);

// Fields that the firmware does not fill have all bits set.
template <typename Metrics>
Metrics blank() {
  Metrics metrics;
  std::memset(&metrics, 0xff, sizeof metrics);
  metrics.header = {sizeof(Metrics), Metrics::kFormat, Metrics::kContent};
  return metrics;
}

template <typename Metrics>
std::string bytes_of(const Metrics& metrics) {
  return std::string(reinterpret_cast<const char*>(&metrics), sizeof metrics);
}

std::uint64_t boot_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint16_t lowest(const std::vector<std::uint64_t>& levels) {
  return levels.empty() ? 0 : static_cast<std::uint16_t>(levels.front());
}

std::string metrics_v1_3(const Gpu& gpu) {
  constexpr std::uint16_t kLinkSpeeds[] = {25, 50, 80, 160, 320};
  const SensorProfile& sensors = gpu.profile().sensors;
  auto metrics = blank<GpuMetricsV1_3>();
  if (sensors.edge_celsius != 0) metrics.temperature_edge = static_cast<std::uint16_t>(sensors.edge_celsius);
  metrics.temperature_hotspot = static_cast<std::uint16_t>(sensors.junction_celsius);
  metrics.temperature_mem = static_cast<std::uint16_t>(sensors.memory_celsius);
  metrics.average_gfx_activity = metrics.average_umc_activity = metrics.average_mm_activity = 0;
  metrics.average_socket_power = static_cast<std::uint16_t>(sensors.idle_power_watts);
  metrics.system_clock_counter = boot_time_ns();
  metrics.energy_accumulator =
      kEnergyUnitsPerJoule * sensors.idle_power_watts * (metrics.system_clock_counter / 1'000'000'000);
  metrics.average_gfxclk_frequency = metrics.current_gfxclk = lowest(sensors.sclk);
  metrics.average_socclk_frequency = metrics.current_socclk = lowest(sensors.socclk);
  metrics.average_uclk_frequency = metrics.current_uclk = lowest(sensors.mclk);
  metrics.throttle_status = 0;
  metrics.current_fan_speed = 0;
  metrics.pcie_link_width = static_cast<std::uint16_t>(gpu.profile().pci.link_width);
  metrics.pcie_link_speed = kLinkSpeeds[gpu.profile().pci.link_generation - 1];
  metrics.gfx_activity_acc = metrics.mem_activity_acc = 0;
  metrics.firmware_timestamp = metrics.system_clock_counter / 10;
  metrics.indep_throttle_status = 0;
  return bytes_of(metrics);
}

std::string metrics_v3_0(const Gpu& gpu) {
  const SensorProfile& sensors = gpu.profile().sensors;
  auto metrics = blank<GpuMetricsV3_0>();
  metrics.temperature_gfx = metrics.temperature_soc = static_cast<std::uint16_t>(sensors.edge_celsius * 100);
  metrics.average_gfx_activity = metrics.average_vcn_activity = 0;
  metrics.system_clock_counter = boot_time_ns();
  metrics.average_socket_power = metrics.average_apu_power = sensors.idle_power_watts * 1000;
  metrics.average_gfxclk_frequency = lowest(sensors.sclk);
  metrics.average_socclk_frequency = lowest(sensors.socclk);
  metrics.average_fclk_frequency = lowest(sensors.fclk);
  metrics.average_uclk_frequency = lowest(sensors.mclk);
  if (!sensors.sclk.empty()) metrics.current_gfx_maxfreq = static_cast<std::uint16_t>(sensors.sclk.back());
  return bytes_of(metrics);
}

}  // namespace

std::string gpu_metrics(const Gpu& gpu) {
  return gpu.profile().sensors.metrics_format == GpuMetricsV3_0::kFormat ? metrics_v3_0(gpu)
                                                                         : metrics_v1_3(gpu);
}

}  // namespace understudy::kfd
