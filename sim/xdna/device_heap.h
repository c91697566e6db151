// DeviceHeap: a file's device memory: chunks of host memory behind the device aperture, and the DEV BOs
// carved from it.
//
// Owner: XdnaFile; DEV BOs refer to it weakly. Chunks stay until the file is closed, whatever happens to
// their handles. Units: bytes. Errors: ENOSPC (maximum or aperture exhausted), EAGAIN (placement not backed
// or not mapped yet), EINVAL, EOPNOTSUPP. Thread-safety: locks itself. Mirrors: amdxdna_gem.c:
// amdxdna_drm_create_dev_heap_bo, amdxdna_gem_heap_alloc; struct amdxdna_client.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/xdna/aperture.h"
#include "sim/xdna/bo.h"

namespace understudy::xdna {

class DeviceHeap : public std::enable_shared_from_this<DeviceHeap> {
 public:
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{64} << 20;

  DeviceHeap(std::uint64_t max_bytes, bool expandable)
      : max_bytes_(max_bytes), expandable_(expandable), aperture_(max_bytes) {}

  std::uint64_t max_bytes() const { return max_bytes_; }
  bool empty() const;
  // Appends a chunk and gives it its device address.
  Result<void> add_chunk(const XdnaBoRef& chunk);
  // Places a DEV BO. The chunks under it must exist and be mapped by the client at consecutive addresses.
  Result<void> place(XdnaBo& bo);
  void release(std::uint64_t device_address, std::uint64_t size_bytes);
  // Sum of placed DEV BOs.
  std::uint64_t used_bytes() const;

  // Client address of a device address, kInvalidAddress when its chunk is not mapped.
  std::uint64_t client_address(std::uint64_t device_address) const;
  struct Place {
    XdnaBoRef chunk;
    std::uint64_t offset_bytes = 0;
    std::uint64_t contiguous_bytes = 0;  // to the end of the chunk
  };
  // The chunk that backs a device address.
  std::optional<Place> locate(std::uint64_t device_address) const;
  // EAGAIN: a chunk is not mapped; EINVAL: mapped, but not one after the other.
  Result<void> check_mapped() const;

 private:
  Result<void> check_mapped_locked() const;
  std::optional<Place> locate_locked(std::uint64_t device_address) const;
  const std::uint64_t max_bytes_;
  const bool expandable_;
  mutable std::mutex mutex_;
  Aperture aperture_;              // guarded by mutex_
  std::vector<XdnaBoRef> chunks_;  // guarded by mutex_
  std::uint64_t total_bytes_ = 0;  // guarded by mutex_
  std::uint64_t used_bytes_ = 0;   // guarded by mutex_
};

}  // namespace understudy::xdna
