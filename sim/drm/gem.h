// GEM: buffer objects with per-file handles, and PRIME's two-way cache of dma-bufs.
//
// Owner: a GemObject is shared by handles, dma-bufs, device maps and driver handles; a GemHandles table
// belongs to one DRM file. Units: bytes; handles are per-file numbers from 1, lowest free reused. Errors:
// EINVAL for closing an unknown handle, ENOENT for looking one up. Thread-safety: the table locks itself.
// Mirrors: drm_gem.c: drm_gem_handle_create, drm_gem_handle_delete, drm_gem_object_lookup;
// drm_prime.c: drm_gem_prime_handle_to_fd, drm_gem_prime_fd_to_handle.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "sim/core/buffer.h"
#include "sim/core/call.h"
#include "sim/core/dmabuf.h"
#include "sim/core/ledger.h"
#include "sim/core/result.h"
#include "sim/drm/reservation.h"

namespace understudy::drm {

class Device;
class DrmFile;

enum class GemHandle : std::uint32_t {};

class GemObject : public DmaBufExporter, public std::enable_shared_from_this<GemObject> {
 public:
  GemObject(Device& device, std::uint64_t size_bytes) : device_(device), size_bytes_(size_bytes) {}
  ~GemObject() override;

  Device& device() const { return device_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // The pages; null for objects without any of their own (userptr).
  virtual BufferRef buffer() const = 0;
  // What a dump calls it: "2 MiB VRAM".
  virtual std::string describe() const = 0;
  // prime_handle_to_fd's driver check: EPERM (amdgpu userptr), EOPNOTSUPP (amdxdna DEV), ...
  virtual Result<void> may_export() const { return {}; }

  // Fake mmap offset, made at first use, unique on the device.
  std::uint64_t mmap_offset_bytes();

  // The dma-buf of this object: for an import the original one, else made at the first export and cached
  // (drm_gem_object.dma_buf / import_attach). Weak for own exports: it goes when everybody has let go.
  Result<DmaBufRef> ensure_dma_buf(Call& call, bool writable);
  void set_imported_from(DmaBufRef dma_buf) { imported_from_ = std::move(dma_buf); }
  const DmaBufRef& imported_from() const { return imported_from_; }

  // The fences of its users.
  Reservation& reservation() { return reservation_; }

 private:
  Device& device_;
  const std::uint64_t size_bytes_;
  std::mutex mutex_;
  std::uint64_t mmap_offset_bytes_ = 0;  // guarded by mutex_
  std::weak_ptr<DmaBuf> dma_buf_;        // guarded by mutex_
  DmaBufRef imported_from_;
  Reservation reservation_;
};

using GemRef = std::shared_ptr<GemObject>;

class GemHandles {
 public:
  GemHandles(DrmFile& file, std::string owner_label) : file_(file), owner_label_(std::move(owner_label)) {}

  Result<GemHandle> create(const Call* call, const GemRef& object);
  Result<GemRef> lookup(GemHandle handle) const;  // ENOENT
  // GEM_CLOSE: EINVAL for an unknown handle, which the ledger is told about.
  Result<GemRef> close(const Call& call, GemHandle handle);
  bool holds(const GemObject& object) const;  // mmap's "granted to this file"
  std::vector<std::pair<GemHandle, GemRef>> all() const;
  void close_all();
  // GEM_CHANGE_HANDLE: ENOENT for an unknown handle, ENOSPC when the new number is taken.
  Result<void> change(GemHandle from, GemHandle to);

  // PRIME cache of this file.
  Result<GemHandle> handle_of(const DmaBufRef& dma_buf) const;  // ENOENT: not known here
  void remember(const DmaBufRef& dma_buf, GemHandle handle);

 private:
  struct Slot {
    GemRef object;
    DmaBufRef dma_buf;  // import/export cache entry, keeps the dma-buf alive
    LedgerEntry entry;
  };
  void handle_gone(GemObject& object);
  Slot take_locked(std::map<std::uint32_t, Slot>::iterator place);

  DrmFile& file_;
  const std::string owner_label_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Slot> slots_;                           // guarded by mutex_
  std::set<std::uint32_t> free_;                                  // guarded by mutex_; below next_
  std::uint32_t next_ = 1;                                        // guarded by mutex_
  std::unordered_map<const GemObject*, unsigned> handle_counts_;  // guarded by mutex_
  std::set<std::pair<const DmaBuf*, std::uint32_t>> by_dma_buf_;  // guarded by mutex_
};

}  // namespace understudy::drm
