// HostVisibleRegion: the PCI BAR through which the guest sees host memory: which blob is mapped where.
//
// Owner: the device; the driver reads it. Units: bytes from the start of the region. Errors: EFAULT where
// nothing is mapped; opening a mapping gives the exporter's errors. Thread-safety: locks itself.
// Mirrors: QEMU's hostmem container and the subregions in it. As there, nobody checks whether mappings
// overlap; the one made last is on top.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "sim/core/file.h"
#include "sim/core/result.h"

namespace understudy::virtio_gpu {

// Gives a client pages of a blob: called for each client mapping, since the description handed out is what
// keeps the pages alive.
using BlobOpener = std::function<Result<MmapTarget>()>;

class HostVisibleRegion {
 public:
  explicit HostVisibleRegion(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  std::uint64_t size_bytes() const { return size_bytes_; }

  void map(std::uint64_t offset_bytes, std::uint32_t resource_id, BlobOpener opener) {
    const std::lock_guard lock(mutex_);
    mappings_[offset_bytes] = {resource_id, std::move(opener)};
  }
  void unmap(std::uint64_t offset_bytes, std::uint32_t resource_id) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(offset_bytes);
    if (found != mappings_.end() && found->second.resource_id == resource_id) mappings_.erase(found);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    mappings_.clear();
  }
  Result<MmapTarget> open(std::uint64_t offset_bytes) const {
    BlobOpener opener;
    {
      const std::lock_guard lock(mutex_);
      const auto found = mappings_.find(offset_bytes);
      if (found == mappings_.end()) return Errno(EFAULT);
      opener = found->second.opener;
    }
    return opener();
  }

 private:
  struct Mapped {
    std::uint32_t resource_id = 0;
    BlobOpener opener;
  };
  const std::uint64_t size_bytes_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Mapped> mappings_;  // guarded by mutex_
};

}  // namespace understudy::virtio_gpu
