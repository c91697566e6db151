// Rings: which hardware rings command submissions can name, and their limits.
//
// Units: none. Mirrors: amdgpu_ctx.c: amdgpu_ctx_num_entities, amdgpu_ring.c: amdgpu_ring_max_ibs,
// amdgpu_cs.c: AMDGPU_GFX_SDMA_IB_PACKET_SIZE_MAX_DW.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "sim/kfd/profile.h"
#include "sim/kfd/render/ip_versions.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {

struct RingId {
  std::uint32_t ip_type = 0;
  std::uint32_t ip_instance = 0;
  std::uint32_t ring = 0;
  auto operator<=>(const RingId&) const = default;
};

// Rings of each type that a context has, whether the hardware is there or not.
inline constexpr std::array<std::uint32_t, uapi::amdgpu::AMDGPU_HW_IP_NUM> kEntityCounts = {1, 4, 2, 1, 1,
                                                                                            1, 1, 1, 1, 1};
// Indirect buffers in one submission to a ring.
inline constexpr std::array<std::uint32_t, uapi::amdgpu::AMDGPU_HW_IP_NUM> kMaxIbs = {192, 125, 49, 49, 49,
                                                                                      49,  49,  49, 16, 49};
inline constexpr std::uint32_t kMaxIbDwords = 0xfffff;

inline bool is_ring_of_a_context(const RingId& ring) {
  return ring.ip_type < kEntityCounts.size() && ring.ip_instance == 0 &&
         ring.ring < kEntityCounts[ring.ip_type];
}

// amdgpu_ring.name
inline std::string ring_name(const RingId& ring) {
  switch (ring.ip_type) {
    case uapi::amdgpu::AMDGPU_HW_IP_GFX:
      return "gfx_0.0." + std::to_string(ring.ring);
    case uapi::amdgpu::AMDGPU_HW_IP_COMPUTE:
      return "comp_1." + std::to_string(ring.ring) + ".0";
    default:
      return "sdma" + std::to_string(ring.ring);
  }
}

inline unsigned sdma_instance_count(const GpuProfile& profile) {
  return static_cast<unsigned>(profile.property("num_sdma_engines") +
                               profile.property("num_sdma_xgmi_engines"));
}

// gfx_v9_0.c: gfx_v9_0_early_init, gfx_v9_4_3.c: the Instinct line left it out.
inline bool has_graphics_pipe(const GpuProfile& profile) {
  const IpVersion graphics = ip_versions(profile).graphics;
  return graphics.major != 9 || graphics.minor < 4;
}

// Rings of the hardware: the simulated ones are graphics, compute and DMA.
inline std::uint32_t hardware_ring_count(const GpuProfile& profile, std::uint32_t ip_type) {
  switch (ip_type) {
    case uapi::amdgpu::AMDGPU_HW_IP_GFX:
      return has_graphics_pipe(profile) ? 1 : 0;
    case uapi::amdgpu::AMDGPU_HW_IP_COMPUTE:
      return kEntityCounts[ip_type];
    case uapi::amdgpu::AMDGPU_HW_IP_DMA:
      return std::min(kEntityCounts[ip_type], sdma_instance_count(profile));
    default:
      return 0;
  }
}

}  // namespace understudy::kfd
