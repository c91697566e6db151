#include "sim/kfd/topology/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace understudy::kfd {
namespace {

constexpr unsigned kFirstRenderMinor = 128;
constexpr unsigned kFirstRootPortDevice = 1;
constexpr unsigned kRootPortsPerDevice = 7;  // function 0 is a dummy host bridge

// lib/crc16.c: polynomial 0x8005, reflected.
std::uint16_t crc16(std::uint16_t crc, std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = static_cast<std::uint16_t>((crc & 1) != 0 ? crc >> 1 ^ 0xa001 : crc >> 1);
  }
  return crc;
}

// kfd_topology.c: kfd_generate_gpu_id.
std::uint16_t generate_gpu_id(const GpuProfile& profile, const GpuPlacement& placement,
                              const std::vector<GpuPlacement>& others) {
  const std::uint32_t words[] = {
      placement.pci_device << 3 | placement.pci_function,
      profile.pci.subsystem_vendor | std::uint32_t{profile.pci.subsystem_device} << 16,
      placement.pci_domain,
      profile.pci.device,
      placement.pci_bus,
      static_cast<std::uint32_t>(profile.vram_bytes),
      static_cast<std::uint32_t>(profile.vram_bytes >> 32),
      profile.compute.xcc_count << 16,  // the first partition is number 0
  };
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  std::uint16_t gpu_id = crc16(0, bytes);
  const auto is_taken = [&] {
    return std::any_of(others.begin(), others.end(),
                       [&](const GpuPlacement& other) { return other.gpu_id == gpu_id; });
  };
  while (gpu_id == 0 || is_taken()) ++gpu_id;
  return gpu_id;
}

std::uint64_t draw_nonzero(const Draw& draw, std::string_view purpose, std::uint64_t index) {
  const std::uint64_t number = draw(purpose, index);
  return number != 0 ? number : 1;
}

// How many of the profiles from `first` on are one hive: neighbours of the same model, up to its hive size.
std::size_t hive_length(const std::vector<GpuProfile>& profiles, std::size_t first) {
  std::size_t length = 1;
  while (first + length < profiles.size() && length < profiles[first].xgmi.hive_size &&
         profiles[first + length].name == profiles[first].name) {
    ++length;
  }
  return length;
}

void form_hives(const std::vector<GpuProfile>& profiles, std::vector<GpuPlacement>& placements,
                const Draw& draw) {
  for (std::size_t first = 0; first < profiles.size();) {
    const std::size_t length = hive_length(profiles, first);
    if (length > 1) {
      const std::uint64_t hive_id = draw_nonzero(draw, "hive_id", first);
      for (std::size_t i = 0; i < length; ++i) {
        GpuPlacement& placement = placements[first + i];
        placement.hive_id = hive_id;
        placement.index_in_hive = static_cast<unsigned>(i);
        placement.hive_size = static_cast<unsigned>(length);
      }
    }
    first += length;
  }
}

// What is still free in one PCI domain.
struct PciDomain {
  unsigned next_bus = 1;
  unsigned next_root_port = 0;
};

void place_on_bus(const GpuProfile& profile, PciDomain& domain, GpuPlacement& placement) {
  placement.root_port_device = kFirstRootPortDevice + domain.next_root_port / kRootPortsPerDevice;
  placement.root_port_function = 1 + domain.next_root_port % kRootPortsPerDevice;
  ++domain.next_root_port;
  if (!profile.is_apu) {
    placement.is_behind_switch = true;
    domain.next_bus += 2;
  }
  placement.pci_bus = domain.next_bus++;
}

}  // namespace

std::vector<GpuPlacement> place_gpus(const std::vector<GpuProfile>& profiles, unsigned cpu_node_count,
                                     unsigned first_drm_minor, const Draw& draw) {
  std::vector<GpuPlacement> placements;
  std::array<PciDomain, kMaxCpuNodes> domains;
  for (unsigned i = 0; i < profiles.size(); ++i) {
    const GpuProfile& profile = profiles[i];
    GpuPlacement placement;
    placement.index = i;
    placement.topology_node = cpu_node_count + i;
    placement.render_minor = kFirstRenderMinor + first_drm_minor + i;
    placement.card_minor = first_drm_minor + i;
    placement.numa_node = i * cpu_node_count / static_cast<unsigned>(profiles.size());
    // Each NUMA node has a PCI domain of its own, so that 64 boards find enough buses.
    placement.pci_domain = placement.numa_node;
    place_on_bus(profile, domains.at(placement.numa_node), placement);
    if (profile.has_unique_id) placement.unique_id = draw_nonzero(draw, "unique_id", i);
    placement.gpu_id = generate_gpu_id(profile, placement, placements);
    placements.push_back(placement);
  }
  form_hives(profiles, placements, draw);
  return placements;
}

std::string pci_slot_name(unsigned domain, unsigned bus, unsigned device, unsigned function) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::string pci_slot_name(const GpuPlacement& placement) {
  return pci_slot_name(placement.pci_domain, placement.pci_bus, placement.pci_device, placement.pci_function);
}

std::uint32_t pci_location_id(const GpuPlacement& placement) {
  return placement.pci_bus << 8 | placement.pci_device << 3 | placement.pci_function;
}

}  // namespace understudy::kfd
