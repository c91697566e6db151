// GpuVm: one GPU page table: an interval map from device addresses to pages of a BO, as one process (or one
// render file) sees them on one GPU.
//
// Owner: the render file whose VM it is; KFD's process takes a share with ACQUIRE_VM. Units: bytes.
// Errors: EINVAL for an overlapping map (amdgpu_vm_bo_map), ENOENT for an unmap that finds nothing.
// Thread-safety: locks itself. What contiguous() gives out keeps its pages alive, so an unmap or free during
// an engine's access changes what the access hits, never the server's health. Mirrors: amdgpu_vm.c:
// amdgpu_vm_bo_map, amdgpu_vm_bo_replace_map, amdgpu_vm_bo_unmap, amdgpu_vm_bo_clear_mappings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "sim/core/result.h"

namespace understudy::kfd {

class AmdgpuBo;

struct PagePermissions {
  bool readable = true;
  bool writable = false;
  bool executable = false;
};

struct GpuMapping {
  std::uint64_t start = 0;
  std::uint64_t size_bytes = 0;
  std::shared_ptr<AmdgpuBo> bo;  // null: PRT
  std::uint64_t bo_offset_bytes = 0;
  PagePermissions permissions;
  // KFD attachments and GEM_VA mappings of one BO live and die apart.
  bool made_by_kfd = false;
  std::uint64_t gem_va_flags = 0;
  // Queues pin what they use: unmap answers EBUSY while non-zero.
  unsigned queue_references = 0;
};

enum class Access : std::uint8_t { kRead, kWrite, kExecute };

// Why an access failed, for the memory-exception event.
struct GpuFault {
  std::uint64_t address = 0;  // page aligned
  bool not_present = false;
  bool read_only = false;
  bool no_execute = false;

  // An access to a page that is not there, or forbids it.
  static GpuFault of(std::uint64_t address, Access access, bool present);
};

// What a device address stands for, up to the end of one mapping.
struct Translation {
  std::shared_ptr<AmdgpuBo> bo;  // keeps the pages alive; null: PRT, which swallows writes and reads as zero
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

class GpuVm {
 public:
  // First and last page number are below this (vm_manager.max_pfn of every GPU here: 48 bits of address).
  static constexpr std::uint64_t kEndAddress = std::uint64_t{1} << 48;

  // EINVAL: unaligned or empty range, range outside the BO or the VM, overlap.
  Result<void> map(GpuMapping mapping);
  // Removes or splits what overlaps, then maps (AMDGPU_VA_OP_REPLACE).
  Result<void> replace(GpuMapping mapping);
  // BO and start address must match; ENOENT otherwise.
  Result<void> unmap(const AmdgpuBo& bo, std::uint64_t start, bool made_by_kfd);
  void clear(std::uint64_t start, std::uint64_t size_bytes);
  // All GEM_VA (or all KFD) mappings of a BO, as closing its last handle does.
  void unmap_all(const AmdgpuBo& bo, bool made_by_kfd);

  // A handle of `bo` appeared in the file this VM belongs to, or went; with the last one go all its GEM_VA
  // mappings (amdgpu_gem.c: amdgpu_gem_object_open, amdgpu_gem_object_close).
  void handle_opened(const AmdgpuBo& bo);
  void handle_closed(const AmdgpuBo& bo);

  std::optional<GpuMapping> find(std::uint64_t address) const;
  // The mapping that starts exactly at `start`.
  std::optional<GpuMapping> find_start(std::uint64_t start) const;
  // Does any mapping overlap the range?
  bool maps_any(std::uint64_t start, std::uint64_t size_bytes) const;
  std::vector<GpuMapping> mappings_of(const AmdgpuBo& bo) const;
  std::size_t mapping_count() const;
  // Adds `delta` to queue_references of the mapping at `start`. ENOENT.
  Result<void> pin_for_queue(std::uint64_t start, int delta);

  // At most max_bytes from `address` on. Nothing on a miss or a forbidden access, with *fault filled.
  std::optional<Translation> translate(std::uint64_t address, std::uint64_t max_bytes, Access access,
                                       GpuFault* fault) const;

 private:
  using ByStart = std::map<std::uint64_t, GpuMapping>;
  // The rest requires mutex_.
  Result<void> check(const GpuMapping& mapping) const;
  ByStart::const_iterator covering(std::uint64_t address) const;
  bool overlaps(std::uint64_t start, std::uint64_t size_bytes) const;
  void insert(GpuMapping mapping);
  ByStart::iterator erase(ByStart::iterator position);
  // `dropped` receives what must be destroyed after unlocking.
  void clear_locked(std::uint64_t start, std::uint64_t size_bytes,
                    std::vector<std::shared_ptr<AmdgpuBo>>& dropped);

  mutable std::shared_mutex mutex_;
  ByStart by_start_;                                                           // guarded by mutex_
  std::unordered_map<const AmdgpuBo*, std::set<std::uint64_t>> starts_of_bo_;  // guarded by mutex_
  std::unordered_map<const AmdgpuBo*, unsigned> handle_counts_;                // guarded by mutex_
};

}  // namespace understudy::kfd
