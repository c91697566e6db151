#include "sim/kfd/topology/amdgpu_attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace understudy::kfd {
namespace {

constexpr std::uint64_t kSmallBarBytes = 256 << 20;

SysfsTree::Show show(std::function<std::uint64_t()> number) {
  return [number = std::move(number)]() -> Result<std::string> { return fmt::format("{}\n", number()); };
}

void add_memory(SysfsTree& sysfs, const std::string& directory, const Gpu& gpu) {
  const std::uint64_t visible_bytes =
      gpu.is_large_bar() ? gpu.vram_size_bytes() : std::min(kSmallBarBytes, gpu.vram_size_bytes());
  sysfs.attribute(directory + "/mem_info_vram_total", fmt::format("{}\n", gpu.vram_size_bytes()));
  sysfs.attribute(directory + "/mem_info_vis_vram_total", fmt::format("{}\n", visible_bytes));
  sysfs.attribute(directory + "/mem_info_vram_used", show([&gpu] { return gpu.vram_used_bytes(); }));
  sysfs.attribute(directory + "/mem_info_vis_vram_used",
                  show([&gpu, visible_bytes] { return std::min(visible_bytes, gpu.vram_used_bytes()); }));
  sysfs.attribute(directory + "/mem_info_gtt_total", fmt::format("{}\n", gpu.gtt_size_bytes()));
  sysfs.attribute(directory + "/mem_info_gtt_used", show([&gpu] { return gpu.gtt_used_bytes(); }));
  sysfs.attribute(directory + "/mem_info_preempt_used", "0\n");
  sysfs.attribute(directory + "/mem_info_vram_vendor", gpu.profile().memory_vendor + "\n");
}

void add_identity(SysfsTree& sysfs, const std::string& directory, const Gpu& gpu) {
  const GpuProfile& profile = gpu.profile();
  sysfs.attribute(directory + "/vbios_version", profile.vbios_version + "\n");
  sysfs.attribute(directory + "/board_info",
                  fmt::format("type : {}\n", profile.pci.class_code == 0x120000 ? "oam" : "cem"));
  if (profile.has_unique_id)
    sysfs.attribute(directory + "/unique_id", fmt::format("{:016x}\n", gpu.placement().unique_id));
  // Only boards for servers carry an EEPROM with these, and they are those with RAS.
  if (profile.ras_features != 0) {
    sysfs.attribute(directory + "/product_name", profile.marketing_name + "\n");
    sysfs.attribute(directory + "/product_number", fmt::format("102-{:X}\n", profile.pci.subsystem_device));
    sysfs.attribute(directory + "/serial_number",
                    fmt::format("{:012x}\n", gpu.placement().unique_id & 0xffff'ffff'ffff));
    sysfs.attribute(directory + "/manufacturer", "AMD\n");
  }
  if (!profile.is_apu) sysfs.attribute(directory + "/pcie_replay_count", "0\n");
}

void add_ras(SysfsTree& sysfs, const std::string& directory, const GpuProfile& profile) {
  if (profile.ras_features == 0) return;
  const std::string ras = directory + "/ras";
  sysfs.attribute(ras + "/features", fmt::format("feature mask: {:#x}\n", profile.ras_features));
  sysfs.attribute(ras + "/version", "table version: 0x10000\n");
  sysfs.attribute(ras + "/schema", "schema: 0x0\n");
  sysfs.attribute(ras + "/gpu_vram_bad_pages", "");
  for (const std::string& block : profile.ras_blocks)
    sysfs.attribute(fmt::format("{}/{}_err_count", ras, block), "ue: 0\nce: 0\n");
}

void add_xgmi(SysfsTree& sysfs, const std::string& directory, const GpuPlacement& placement) {
  if (placement.hive_id == 0) return;
  sysfs.attribute(directory + "/xgmi_device_id", fmt::format("{}\n", placement.unique_id));
  sysfs.attribute(directory + "/xgmi_physical_id", fmt::format("{}\n", placement.index_in_hive));
  sysfs.attribute(directory + "/xgmi_error", "0\n");
  sysfs.attribute(directory + "/xgmi_hive_info/xgmi_hive_id", fmt::format("{}\n", placement.hive_id));
}

void add_partitions(SysfsTree& sysfs, const std::string& directory, const PartitionProfile& partition) {
  if (partition.compute.empty()) return;
  sysfs.attribute(directory + "/current_compute_partition", partition.compute + "\n");
  sysfs.attribute(directory + "/available_compute_partition",
                  fmt::format("{}\n", fmt::join(partition.computes, ", ")));
  sysfs.attribute(directory + "/current_memory_partition", partition.memory + "\n");
}

}  // namespace

void add_amdgpu_attributes(SysfsTree& sysfs, const std::string& pci_directory, const Gpu& gpu) {
  const GpuProfile& profile = gpu.profile();
  add_memory(sysfs, pci_directory, gpu);
  add_identity(sysfs, pci_directory, gpu);
  for (const FirmwareVersion& firmware : profile.firmware) {
    sysfs.attribute(fmt::format("{}/fw_version/{}_fw_version", pci_directory, firmware.name),
                    fmt::format("{:#010x}\n", firmware.version));
  }
  add_ras(sysfs, pci_directory, profile);
  add_xgmi(sysfs, pci_directory, gpu.placement());
  add_partitions(sysfs, pci_directory, profile.partition);
}

}  // namespace understudy::kfd
