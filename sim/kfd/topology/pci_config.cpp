#include "sim/kfd/topology/pci_config.h"

#include <linux/pci_regs.h>

#include <bit>

namespace understudy::kfd {
namespace {

constexpr std::size_t kConfigBytes = 256;
constexpr std::uint16_t kAtiVendor = 0x1002;
constexpr std::uint32_t kBridgeClass = 0x060400;
constexpr unsigned kExpressCapability = 0x64;
constexpr std::uint8_t kLegacyInterrupt = 255;
constexpr std::uint64_t kFirstVramAddress = std::uint64_t{1} << 40;
constexpr std::uint64_t kSmallBarBytes = 256 << 20;
constexpr std::uint64_t kFirstDoorbellAddress = std::uint64_t{1} << 39;
constexpr std::uint32_t kFirstRegistersAddress = 0xc000'0000;

class ConfigSpace {
 public:
  void byte(unsigned offset, std::uint8_t value) { bytes_[offset] = static_cast<char>(value); }
  void word(unsigned offset, std::uint16_t value) { put(offset, value, 2); }
  void dword(unsigned offset, std::uint32_t value) { put(offset, value, 4); }
  std::string take() && { return std::move(bytes_); }

 private:
  void put(unsigned offset, std::uint32_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) byte(offset + i, static_cast<std::uint8_t>(value >> (8 * i)));
  }
  std::string bytes_ = std::string(kConfigBytes, '\0');
};

void put_common(ConfigSpace& config, std::uint16_t vendor, std::uint16_t device, std::uint8_t revision,
                std::uint32_t class_code) {
  config.word(PCI_VENDOR_ID, vendor);
  config.word(PCI_DEVICE_ID, device);
  config.word(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
  config.word(PCI_STATUS, PCI_STATUS_CAP_LIST);
  config.dword(PCI_CLASS_REVISION, class_code << 8 | revision);
  config.byte(PCI_CACHE_LINE_SIZE, 16);
  config.byte(PCI_CAPABILITY_LIST, kExpressCapability);
  config.byte(PCI_INTERRUPT_LINE, kLegacyInterrupt);
  config.byte(PCI_INTERRUPT_PIN, 1);
}

// 32-bit and 64-bit atomics are completed, as ROCm wants them.
void put_express(ConfigSpace& config, unsigned port_type, unsigned link_generation, unsigned link_width) {
  config.byte(kExpressCapability, PCI_CAP_ID_EXP);
  config.word(kExpressCapability + PCI_EXP_FLAGS, static_cast<std::uint16_t>(port_type << 4 | 2));
  const auto link = static_cast<std::uint16_t>(link_generation | link_width << 4);
  config.dword(kExpressCapability + PCI_EXP_LNKCAP, link);
  config.word(kExpressCapability + PCI_EXP_LNKSTA, link);
  config.dword(kExpressCapability + PCI_EXP_DEVCAP2,
               PCI_EXP_DEVCAP2_ATOMIC_ROUTE | PCI_EXP_DEVCAP2_ATOMIC_COMP32 | PCI_EXP_DEVCAP2_ATOMIC_COMP64);
}

void put_wide_bar(ConfigSpace& config, unsigned offset, std::uint64_t address) {
  config.dword(offset, static_cast<std::uint32_t>(address) | PCI_BASE_ADDRESS_MEM_TYPE_64 |
                           PCI_BASE_ADDRESS_MEM_PREFETCH);
  config.dword(offset + 4, static_cast<std::uint32_t>(address >> 32));
}

}  // namespace

PciBars bars_of(const Gpu& gpu) {
  const unsigned index = gpu.placement().index;
  PciBars bars;
  bars.vram_size_bytes =
      gpu.is_large_bar() ? std::bit_ceil(gpu.profile().vram_bytes) : std::uint64_t{kSmallBarBytes};
  // Room for the largest BAR each.
  bars.vram_address = kFirstVramAddress * (index + 1);
  bars.doorbell_address = kFirstDoorbellAddress + index * PciBars::kDoorbellSizeBytes;
  bars.registers_address = kFirstRegistersAddress + index * PciBars::kRegistersSizeBytes;
  return bars;
}

std::string gpu_config(const Gpu& gpu) {
  const PciProfile& pci = gpu.profile().pci;
  const PciBars bars = bars_of(gpu);
  ConfigSpace config;
  put_common(config, kAtiVendor, pci.device, pci.revision, pci.class_code);
  config.byte(PCI_HEADER_TYPE, PCI_HEADER_TYPE_NORMAL);
  put_wide_bar(config, PCI_BASE_ADDRESS_0, bars.vram_address);
  put_wide_bar(config, PCI_BASE_ADDRESS_2, bars.doorbell_address);
  config.dword(PCI_BASE_ADDRESS_5, bars.registers_address);
  config.word(PCI_SUBSYSTEM_VENDOR_ID, pci.subsystem_vendor);
  config.word(PCI_SUBSYSTEM_ID, pci.subsystem_device);
  put_express(config, gpu.profile().is_apu ? PCI_EXP_TYPE_RC_END : PCI_EXP_TYPE_LEG_END, pci.link_generation,
              pci.link_width);
  return std::move(config).take();
}

std::string bridge_config(const PciBridge& bridge, unsigned link_generation, unsigned link_width) {
  ConfigSpace config;
  put_common(config, bridge.vendor, bridge.device, 0, kBridgeClass);
  config.byte(PCI_HEADER_TYPE, PCI_HEADER_TYPE_BRIDGE);
  config.byte(PCI_PRIMARY_BUS, static_cast<std::uint8_t>(bridge.primary_bus));
  config.byte(PCI_SECONDARY_BUS, static_cast<std::uint8_t>(bridge.secondary_bus));
  config.byte(PCI_SUBORDINATE_BUS, static_cast<std::uint8_t>(bridge.subordinate_bus));
  put_express(config, bridge.port_type, link_generation, link_width);
  return std::move(config).take();
}

}  // namespace understudy::kfd
