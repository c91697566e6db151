// The GPU's virtual address space as DEV_INFO reports it and GEM_VA checks it.
//
// Units: bytes. Mirrors: amdgpu_vm.h: AMDGPU_GMC_HOLE_*, AMDGPU_VA_RESERVED_*.
#pragma once

#include <cstdint>

namespace understudy::kfd {

inline constexpr std::uint64_t kVmSizeBytes = std::uint64_t{1} << 48;
inline constexpr std::uint64_t kVaReservedBottomBytes = 0x10000;
// The seq64 page, the CSA and the trap area at the top.
inline constexpr std::uint64_t kVaReservedTopBytes = (std::uint64_t{4} << 20) + (std::uint64_t{64} << 10);
inline constexpr std::uint64_t kHoleStart = 0x0000800000000000;
inline constexpr std::uint64_t kHoleEnd = 0xffff800000000000;
inline constexpr std::uint64_t kHoleMask = 0x0000ffffffffffff;

}  // namespace understudy::kfd
