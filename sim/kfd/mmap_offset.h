// MmapOffset: the offset of mmap on /dev/kfd: what kind of page, and of which GPU.
//
// Owner: plain value. Units: bytes. Errors: none. Thread-safety: immutable.
// Mirrors: amdkfd/kfd_priv.h: KFD_MMAP_TYPE_MASK, KFD_MMAP_GPU_ID.
#pragma once

#include <cstdint>

namespace understudy::kfd {

enum class MmapType : std::uint8_t { kMmio = 0, kReservedMemory = 1, kEvents = 2, kDoorbell = 3 };

struct MmapOffset {
  static constexpr unsigned kTypeShift = 62;
  static constexpr unsigned kGpuIdShift = 46;

  MmapType type = MmapType::kMmio;
  std::uint32_t gpu_id = 0;

  static constexpr MmapOffset from(std::uint64_t offset_bytes) {
    return {static_cast<MmapType>(offset_bytes >> kTypeShift),
            static_cast<std::uint32_t>(offset_bytes >> kGpuIdShift) & 0xffff};
  }
  constexpr std::uint64_t value() const {
    return std::uint64_t{static_cast<std::uint8_t>(type)} << kTypeShift | std::uint64_t{gpu_id}
                                                                              << kGpuIdShift;
  }
};

}  // namespace understudy::kfd
