// HostWindow: the guest's allocator over the device's host-visible region: where the next blob is to be
// mapped.
//
// Owner: VirtioGpuDevice. Units: bytes from the start of the region. Errors: ENOSPC. Thread-safety: locks
// itself. Mirrors: drm_mm.c: drm_mm_insert_node, as virtgpu_vram.c uses it (first fit).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "sim/core/result.h"

namespace understudy::virtio_gpu {

class HostWindow {
 public:
  explicit HostWindow(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  std::uint64_t size_bytes() const { return size_bytes_; }

  // ENOSPC for a size of 0, too, as drm_mm says.
  Result<std::uint64_t> allocate(std::uint64_t size_bytes) {
    const std::lock_guard lock(mutex_);
    if (size_bytes == 0) return Errno(ENOSPC);
    std::uint64_t start = 0;
    for (const auto& [offset, length] : nodes_) {
      if (offset - start >= size_bytes) break;
      start = offset + length;
    }
    if (start > size_bytes_ || size_bytes_ - start < size_bytes) return Errno(ENOSPC);
    nodes_[start] = size_bytes;
    return start;
  }
  void free(std::uint64_t offset_bytes) {
    const std::lock_guard lock(mutex_);
    nodes_.erase(offset_bytes);
  }

 private:
  const std::uint64_t size_bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> nodes_;  // guarded by mutex_; offset -> length
};

}  // namespace understudy::virtio_gpu
