// IpVersions: versions of the hardware blocks behind the simulated rings, and of their drivers.
//
// Units: none. Mirrors: amdgpu_discovery.c (GC_HWIP, SDMA0_HWIP) and the amdgpu_ip_block_version structs of
// gfx_v*.c and sdma_v*.c. The compiler's target number tells GPUs apart, but is not the block's version
// everywhere.
#pragma once

#include <cstdint>

#include "sim/kfd/profile.h"

namespace understudy::kfd {

struct IpVersion {
  std::uint8_t driver_major = 0;
  std::uint8_t driver_minor = 0;
  std::uint8_t major = 0;
  std::uint8_t minor = 0;
  std::uint8_t revision = 0;
  // IP_VERSION_MAJ_MIN_REV
  constexpr std::uint32_t discovery_version() const {
    return std::uint32_t{major} << 16 | std::uint32_t{minor} << 8 | revision;
  }
};

struct IpVersions {
  std::uint64_t gfx_target_version = 0;
  IpVersion graphics;
  IpVersion sdma;
};

inline constexpr IpVersions kIpVersions[] = {
    {90010, {9, 0, 9, 4, 2}, {4, 0, 4, 4, 0}},    {90402, {9, 4, 9, 4, 3}, {4, 4, 4, 4, 2}},
    {90500, {9, 4, 9, 5, 0}, {4, 4, 4, 4, 5}},    {100300, {10, 0, 10, 3, 0}, {5, 2, 5, 2, 0}},
    {110000, {11, 0, 11, 0, 0}, {6, 0, 6, 0, 0}}, {110501, {11, 0, 11, 5, 1}, {6, 0, 6, 1, 1}},
    {120000, {12, 0, 12, 0, 0}, {7, 0, 7, 0, 0}}, {120001, {12, 0, 12, 0, 1}, {7, 0, 7, 0, 1}},
};

inline IpVersions ip_versions(const GpuProfile& profile) {
  const std::uint64_t target = profile.property("gfx_target_version");
  for (const IpVersions& versions : kIpVersions) {
    if (versions.gfx_target_version == target) return versions;
  }
  // A GPU made up by the user: what its numbers suggest.
  const auto part = [target](std::uint64_t divisor) {
    return static_cast<std::uint8_t>(target / divisor % 100);
  };
  const auto sdma = static_cast<std::uint8_t>(profile.sdma_major);
  return {target, {part(10000), 0, part(10000), part(100), part(1)}, {sdma, 0, sdma, 0, 0}};
}

}  // namespace understudy::kfd
