#include "sim/kfd/topology/pci_tree.h"

#include <fmt/format.h>
#include <linux/pci_regs.h>

#include <algorithm>

#include "sim/kfd/topology/pci_config.h"
#include "sim/kfd/topology/placement.h"

namespace understudy::kfd {
namespace {

constexpr unsigned kAtiVendor = 0x1002;
constexpr unsigned kAmdVendor = 0x1022;
constexpr unsigned kRootPort = 0x1483;        // Starship/Matisse GPP bridge
constexpr unsigned kSwitchUpstream = 0x1478;  // on the graphics board
constexpr unsigned kSwitchDownstream = 0x1479;
constexpr unsigned kResourceLines = 13;  // six BARs, ROM, six of SR-IOV
// linux/ioport.h: memory, 64 bit, prefetchable, sized for alignment.
constexpr std::uint64_t kPrefetchable64 = 0x14220c;
constexpr std::uint64_t kMemory = 0x40200;

std::string link_speed(unsigned generation) {
  constexpr const char* kSpeeds[] = {"2.5", "5.0", "8.0", "16.0", "32.0"};
  return fmt::format("{} GT/s PCIe\n", kSpeeds[generation - 1]);
}

struct Bridge {
  std::string slot;
  PciBridge config;
};

// From the root port down to the GPU.
std::vector<Bridge> bridges_above(const GpuPlacement& placement) {
  const unsigned domain = placement.pci_domain, gpu_bus = placement.pci_bus;
  const unsigned first_bus = placement.is_behind_switch ? gpu_bus - 2 : gpu_bus;
  std::vector<Bridge> bridges = {
      {pci_slot_name(domain, 0, placement.root_port_device, placement.root_port_function),
       {kAmdVendor, kRootPort, PCI_EXP_TYPE_ROOT_PORT, 0, first_bus, gpu_bus}}};
  if (placement.is_behind_switch) {
    bridges.push_back(
        {pci_slot_name(domain, first_bus, 0, 0),
         {kAtiVendor, kSwitchUpstream, PCI_EXP_TYPE_UPSTREAM, first_bus, first_bus + 1, gpu_bus}});
    bridges.push_back(
        {pci_slot_name(domain, first_bus + 1, 0, 0),
         {kAtiVendor, kSwitchDownstream, PCI_EXP_TYPE_DOWNSTREAM, first_bus + 1, gpu_bus, gpu_bus}});
  }
  return bridges;
}

std::string root_directory(const GpuPlacement& placement) {
  return fmt::format("devices/pci{:04x}:00", placement.pci_domain);
}

void add_link_attributes(SysfsTree& sysfs, const std::string& directory, const PciProfile& pci) {
  for (const char* which : {"current", "max"}) {
    sysfs.attribute(fmt::format("{}/{}_link_speed", directory, which), link_speed(pci.link_generation));
    sysfs.attribute(fmt::format("{}/{}_link_width", directory, which), fmt::format("{}\n", pci.link_width));
  }
}

struct CpuRange {
  unsigned first = 0, count = 0;
};

CpuRange cpus_of_node(const CpuLayout& cpu, unsigned node) {
  CpuRange range;
  for (unsigned i = 0; i <= node; ++i) {
    range.first += range.count;
    range.count = cpu.core_count / cpu.node_count + (i < cpu.core_count % cpu.node_count ? 1 : 0);
  }
  return range;
}

// "f" or "1,ffffffff": words of 32 bits, highest first.
std::string cpu_mask(const CpuRange& range) {
  std::vector<std::uint32_t> words((range.first + range.count + 31) / 32);
  for (unsigned cpu = range.first; cpu < range.first + range.count; ++cpu) words[cpu / 32] |= 1u << cpu % 32;
  std::string text;
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    text += text.empty() ? fmt::format("{:x}", *word) : fmt::format(",{:08x}", *word);
  return text.empty() ? "0" : text;
}

std::string cpu_list(const CpuRange& range) {
  if (range.count == 0) return "";
  if (range.count == 1) return fmt::format("{}", range.first);
  return fmt::format("{}-{}", range.first, range.first + range.count - 1);
}

std::string resources(const Gpu& gpu) {
  const PciBars bars = bars_of(gpu);
  struct Line {
    std::uint64_t start, size, flags;
  };
  const Line lines[] = {{bars.vram_address, bars.vram_size_bytes, kPrefetchable64},
                        {0, 0, 0},
                        {bars.doorbell_address, PciBars::kDoorbellSizeBytes, kPrefetchable64},
                        {0, 0, 0},
                        {0, 0, 0},
                        {bars.registers_address, PciBars::kRegistersSizeBytes, kMemory}};
  std::string text;
  for (unsigned i = 0; i < kResourceLines; ++i) {
    const Line line = i < std::size(lines) ? lines[i] : Line{0, 0, 0};
    const std::uint64_t end = line.size == 0 ? 0 : line.start + line.size - 1;
    text += fmt::format("{:#018x} {:#018x} {:#018x}\n", line.start, end, line.flags);
  }
  return text;
}

std::string modalias(const PciProfile& pci) {
  return fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd{:08X}bc{:02x}sc{:02x}i{:02x}", kAtiVendor, pci.device,
                     pci.subsystem_vendor, pci.subsystem_device, pci.class_code >> 16,
                     pci.class_code >> 8 & 0xff, pci.class_code & 0xff);
}

std::string uevent(const Gpu& gpu) {
  const PciProfile& pci = gpu.profile().pci;
  return fmt::format(
      "DRIVER=amdgpu\nPCI_CLASS={:X}\nPCI_ID={:04X}:{:04X}\nPCI_SUBSYS_ID={:04X}:{:04X}\n"
      "PCI_SLOT_NAME={}\nMODALIAS={}\n",
      pci.class_code, kAtiVendor, pci.device, pci.subsystem_vendor, pci.subsystem_device,
      pci_slot_name(gpu.placement()), modalias(pci));
}

void add_bridge(SysfsTree& sysfs, const std::string& directory, const Bridge& bridge, const PciProfile& pci) {
  sysfs.attribute(directory + "/vendor", fmt::format("{:#06x}\n", bridge.config.vendor));
  sysfs.attribute(directory + "/device", fmt::format("{:#06x}\n", bridge.config.device));
  sysfs.attribute(directory + "/class", "0x060400\n");
  sysfs.attribute(directory + "/revision", "0x00\n");
  sysfs.attribute(directory + "/config", bridge_config(bridge.config, pci.link_generation, pci.link_width));
  sysfs.attribute(directory + "/secondary_bus_number", fmt::format("{}\n", bridge.config.secondary_bus));
  sysfs.attribute(directory + "/subordinate_bus_number", fmt::format("{}\n", bridge.config.subordinate_bus));
  sysfs.attribute(directory + "/uevent",
                  fmt::format("DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID={:04X}:{:04X}\nPCI_SLOT_NAME={}\n",
                              bridge.config.vendor, bridge.config.device, bridge.slot));
  add_link_attributes(sysfs, directory, pci);
  sysfs.link_to(directory + "/subsystem", "bus/pci");
}

void add_gpu_attributes(SysfsTree& sysfs, const std::string& directory, const Gpu& gpu,
                        const CpuLayout& cpu) {
  const PciProfile& pci = gpu.profile().pci;
  const CpuRange cpus = cpus_of_node(cpu, gpu.placement().numa_node);
  sysfs.attribute(directory + "/vendor", fmt::format("{:#06x}\n", kAtiVendor));
  sysfs.attribute(directory + "/device", fmt::format("{:#06x}\n", pci.device));
  sysfs.attribute(directory + "/subsystem_vendor", fmt::format("{:#06x}\n", pci.subsystem_vendor));
  sysfs.attribute(directory + "/subsystem_device", fmt::format("{:#06x}\n", pci.subsystem_device));
  sysfs.attribute(directory + "/revision", fmt::format("{:#04x}\n", pci.revision));
  sysfs.attribute(directory + "/class", fmt::format("{:#08x}\n", pci.class_code));
  sysfs.attribute(directory + "/config", gpu_config(gpu));
  sysfs.attribute(directory + "/resource", resources(gpu));
  sysfs.attribute(directory + "/uevent", uevent(gpu));
  sysfs.attribute(directory + "/modalias", modalias(pci) + "\n");
  sysfs.attribute(directory + "/numa_node", fmt::format("{}\n", gpu.placement().numa_node));
  sysfs.attribute(directory + "/local_cpus", cpu_mask(cpus) + "\n");
  sysfs.attribute(directory + "/local_cpulist", cpu_list(cpus) + "\n");
  sysfs.attribute(directory + "/irq", fmt::format("{}\n", 64 + gpu.placement().index));
  sysfs.attribute(directory + "/enable", "1\n");
  sysfs.attribute(directory + "/broken_parity_status", "0\n");
  sysfs.attribute(directory + "/dma_mask_bits", "44\n");
  sysfs.attribute(directory + "/consistent_dma_mask_bits", "44\n");
  sysfs.attribute(directory + "/power_state", "D0\n");
  sysfs.attribute(directory + "/power/control", "auto\n");
  sysfs.attribute(directory + "/power/runtime_status", "active\n");
  // Only a VGA controller can be the one the firmware used.
  if (pci.class_code == 0x030000)
    sysfs.attribute(directory + "/boot_vga", gpu.placement().index == 0 ? "1\n" : "0\n");
  add_link_attributes(sysfs, directory, pci);
  sysfs.link_to(directory + "/subsystem", "bus/pci");
  sysfs.link_to(directory + "/driver", "bus/pci/drivers/amdgpu");
}

}  // namespace

std::string pci_directory(const GpuPlacement& placement) {
  std::string directory = root_directory(placement);
  for (const Bridge& bridge : bridges_above(placement)) directory += "/" + bridge.slot;
  return directory + "/" + pci_slot_name(placement);
}

void add_pci_device(SysfsTree& sysfs, const Gpu& gpu, const CpuLayout& cpu,
                    std::function<void()> add_driver_attributes) {
  const GpuPlacement& placement = gpu.placement();
  std::string directory = root_directory(placement);
  for (const Bridge& bridge : bridges_above(placement)) {
    directory += "/" + bridge.slot;
    sysfs.link_to("bus/pci/devices/" + bridge.slot, directory);
  }
  const std::string gpu_directory = pci_directory(placement);
  sysfs.link_to("bus/pci/devices/" + pci_slot_name(placement), gpu_directory);
  sysfs.link_to("bus/pci/drivers/amdgpu/" + pci_slot_name(placement), gpu_directory);

  // Everything below the root port is made when somebody looks.
  const auto add_gpu = [&sysfs, &gpu, cpu, gpu_directory, add_driver_attributes] {
    add_gpu_attributes(sysfs, gpu_directory, gpu, cpu);
    add_driver_attributes();
  };
  const auto add_bridges = [&sysfs, &gpu, gpu_directory, add_gpu] {
    std::string at = root_directory(gpu.placement());
    for (const Bridge& bridge : bridges_above(gpu.placement())) {
      at += "/" + bridge.slot;
      add_bridge(sysfs, at, bridge, gpu.profile().pci);
    }
    sysfs.directory(gpu_directory, add_gpu);
  };
  sysfs.directory(root_directory(placement) + "/" + bridges_above(placement).front().slot, add_bridges);
}

}  // namespace understudy::kfd
