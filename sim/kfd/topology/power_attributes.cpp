#include "sim/kfd/topology/power_attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "sim/kfd/topology/gpu_metrics.h"

namespace understudy::kfd {
namespace {

constexpr unsigned kMicro = 1'000'000;
constexpr unsigned kMilli = 1'000;
constexpr unsigned kEmergencyMarginCelsius = 5;
// Gfx9 counts PCIe traffic, later generations do not (soc15.c, nv.c: get_pcie_usage).
constexpr std::uint64_t kFirstVersionWithoutPcieCount = 100000;
// Data-centre boards have no DPM of the PCIe link (pp_dpm_clk_default_attr_update).
constexpr std::uint64_t kAldebaran = 90010, kAquaVanjaram = 90402;

// "0: 500Mhz *": the star marks the level in use.
std::string clock_levels(const std::vector<std::uint64_t>& levels) {
  std::string text;
  for (std::size_t i = 0; i < levels.size(); ++i)
    text += fmt::format("{}: {}Mhz {}\n", i, levels[i], i == 0 ? "*" : "");
  return text;
}

std::string pcie_levels(const PciProfile& pci) {
  constexpr const char* kSpeeds[] = {"2.5GT/s,", "5.0GT/s,", "8.0GT/s,", "16.0GT/s,", "32.0GT/s,"};
  return fmt::format("0: {} x1 310Mhz \n1: {} x{} 619Mhz *\n", kSpeeds[0], kSpeeds[pci.link_generation - 1],
                     pci.link_width);
}

void add_clocks(SysfsTree& sysfs, const std::string& directory, const Gpu& gpu) {
  const SensorProfile& sensors = gpu.profile().sensors;
  const std::pair<const char*, const std::vector<std::uint64_t>&> domains[] = {{"sclk", sensors.sclk},
                                                                               {"mclk", sensors.mclk},
                                                                               {"fclk", sensors.fclk},
                                                                               {"socclk", sensors.socclk},
                                                                               {"dcefclk", sensors.dcefclk}};
  for (const auto& [name, levels] : domains) {
    if (!levels.empty()) sysfs.attribute(fmt::format("{}/pp_dpm_{}", directory, name), clock_levels(levels));
  }
  const std::uint64_t version = gpu.profile().property("gfx_target_version");
  if (version != kAldebaran && version != kAquaVanjaram && !gpu.profile().is_apu)
    sysfs.attribute(directory + "/pp_dpm_pcie", pcie_levels(gpu.profile().pci));
  if (version < kFirstVersionWithoutPcieCount) sysfs.attribute(directory + "/pcie_bw", "0 0 256\n");
}

// amdgpu_pm.c: amdgpu_set_power_dpm_force_performance_level.
void add_performance_level(SysfsTree& sysfs, const std::string& directory) {
  struct Level {
    std::mutex mutex;
    std::string name = "auto";  // guarded by mutex
  };
  constexpr std::string_view kLevels[] = {"low",
                                          "high",
                                          "auto",
                                          "manual",
                                          "profile_exit",
                                          "profile_standard",
                                          "profile_min_sclk",
                                          "profile_min_mclk",
                                          "profile_peak",
                                          "perf_determinism"};
  const auto level = std::make_shared<Level>();
  sysfs.attribute(
      directory + "/power_dpm_force_performance_level",
      [level]() -> Result<std::string> {
        const std::lock_guard lock(level->mutex);
        return level->name + "\n";
      },
      [level, kLevels](std::string_view text) -> Result<void> {
        const std::string_view wanted = text.substr(0, text.find('\n'));
        if (std::find(std::begin(kLevels), std::end(kLevels), wanted) == std::end(kLevels))
          return Errno(EINVAL);
        const std::lock_guard lock(level->mutex);
        level->name = wanted == "profile_exit" ? "auto" : wanted;
        return {};
      });
}

class Hwmon {
 public:
  Hwmon(SysfsTree& sysfs, std::string directory) : sysfs_(sysfs), directory_(std::move(directory)) {}

  void text(std::string_view name, std::string_view value) {
    sysfs_.attribute(fmt::format("{}/{}", directory_, name), fmt::format("{}\n", value));
  }
  void number(std::string_view name, std::uint64_t value) { text(name, std::to_string(value)); }

  // Absent when the profile does not know it.
  void temperature(unsigned channel, std::string_view label, unsigned celsius, unsigned critical_celsius) {
    if (celsius == 0) return;
    number(fmt::format("temp{}_input", channel), celsius * kMilli);
    text(fmt::format("temp{}_label", channel), label);
    if (critical_celsius == 0) return;
    number(fmt::format("temp{}_crit", channel), critical_celsius * kMilli);
    text(fmt::format("temp{}_crit_hyst", channel), "-273150");
    number(fmt::format("temp{}_emergency", channel), (critical_celsius + kEmergencyMarginCelsius) * kMilli);
  }

 private:
  SysfsTree& sysfs_;
  const std::string directory_;
};

void add_hwmon(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu) {
  const SensorProfile& sensors = gpu.profile().sensors;
  const std::string directory = fmt::format("{0}/hwmon/hwmon{1}", pci_directory, gpu.placement().index);
  Hwmon hwmon(sysfs, directory);
  hwmon.text("name", "amdgpu");
  sysfs.link_to(directory + "/device", pci_directory);
  sysfs.link_to(directory + "/subsystem", "class/hwmon");
  hwmon.temperature(1, "edge", sensors.edge_celsius, sensors.edge_critical_celsius);
  hwmon.temperature(2, "junction", sensors.junction_celsius, sensors.junction_critical_celsius);
  hwmon.temperature(3, "mem", sensors.memory_celsius, sensors.memory_critical_celsius);
  // Firmware reports either an average or the present power.
  const bool is_present_power = gpu.profile().property("gfx_target_version") == kAquaVanjaram;
  hwmon.number(is_present_power ? "power1_input" : "power1_average", sensors.idle_power_watts * kMicro);
  hwmon.text("power1_label", "PPT");
  if (sensors.power_cap_watts != 0) {
    hwmon.number("power1_cap", std::uint64_t{sensors.power_cap_watts} * kMicro);
    hwmon.number("power1_cap_default", std::uint64_t{sensors.power_cap_watts} * kMicro);
    hwmon.number("power1_cap_min", std::uint64_t{sensors.power_cap_min_watts} * kMicro);
    hwmon.number("power1_cap_max", std::uint64_t{sensors.power_cap_max_watts} * kMicro);
  }
  if (sensors.fan_max_rpm != 0) {
    hwmon.number("fan1_input", 0);
    hwmon.number("fan1_min", 0);
    hwmon.number("fan1_max", sensors.fan_max_rpm);
    hwmon.number("fan1_target", 0);
    hwmon.number("fan1_enable", 0);
    hwmon.number("pwm1", 0);
    hwmon.number("pwm1_enable", 2);  // automatic
    hwmon.number("pwm1_min", 0);
    hwmon.number("pwm1_max", 255);
  }
  if (sensors.voltage_mv != 0) {
    hwmon.number("in0_input", sensors.voltage_mv);
    hwmon.text("in0_label", "vddgfx");
  }
  if (!sensors.sclk.empty()) {
    hwmon.number("freq1_input", sensors.sclk.front() * kMicro);
    hwmon.text("freq1_label", "sclk");
  }
  if (!sensors.mclk.empty() && !gpu.profile().is_apu) {
    hwmon.number("freq2_input", sensors.mclk.front() * kMicro);
    hwmon.text("freq2_label", "mclk");
  }
}

}  // namespace

void add_power_attributes(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu) {
  sysfs.attribute(pci_directory + "/power_dpm_state", "performance\n");
  add_performance_level(sysfs, pci_directory);
  add_clocks(sysfs, pci_directory, gpu);
  sysfs.attribute(pci_directory + "/gpu_busy_percent", "0\n");
  if (!gpu.profile().is_apu) sysfs.attribute(pci_directory + "/mem_busy_percent", "0\n");
  sysfs.attribute(pci_directory + "/gpu_metrics",
                  [&gpu]() -> Result<std::string> { return gpu_metrics(gpu); });
  add_hwmon(sysfs, pci_directory, gpu);
}

}  // namespace understudy::kfd
