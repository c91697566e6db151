// Aperture: the device addresses of DEV BOs: best fit at 32 KiB alignment inside the heap window.
//
// Owner: an XdnaFile. Units: bytes; addresses are NPU device addresses. Errors: ENOSPC. Thread-safety: none;
// guarded by the file. Mirrors: amdxdna_gem.c: amdxdna_gem_heap_alloc (drm_mm with DRM_MM_INSERT_BEST).
#pragma once

#include <cstdint>
#include <map>

#include "sim/core/result.h"

namespace understudy::xdna {

class Aperture {
 public:
  static constexpr std::uint64_t kBase = 0x4000000;
  static constexpr std::uint64_t kAlignmentBytes = 32 * 1024;

  explicit Aperture(std::uint64_t size_bytes) : free_{{kBase, size_bytes}} {}

  Result<std::uint64_t> allocate(std::uint64_t size_bytes);
  void release(std::uint64_t address, std::uint64_t size_bytes);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // start -> size
};

}  // namespace understudy::xdna
