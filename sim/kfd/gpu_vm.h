// GpuVm: one GPU page table: an interval map from device addresses to pages of a BO, as one process (or one
// render file) sees them on one GPU.
//
// Owner: the render file whose VM it is; KFD's process takes a share with ACQUIRE_VM. Units: bytes.
// Errors: EINVAL for an overlapping map (amdgpu_vm_bo_map), ENOENT for an unmap that finds nothing.
// Thread-safety: locks itself; translations are valid until the next unmap, so engines re-translate per
// chunk. Mirrors: amdgpu_vm.c: amdgpu_vm_bo_map, amdgpu_vm_bo_replace_map, amdgpu_vm_bo_unmap,
// amdgpu_vm_bo_clear_mappings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/client.h"
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
};

class GpuVm {
 public:
  Result<void> map(GpuMapping mapping);
  // Removes or splits what overlaps, then maps (AMDGPU_VA_OP_REPLACE).
  Result<void> replace(GpuMapping mapping);
  // BO and start address must match; ENOENT otherwise.
  Result<void> unmap(const AmdgpuBo& bo, std::uint64_t start, bool made_by_kfd);
  void clear(std::uint64_t start, std::uint64_t size_bytes);
  // All GEM_VA (or all KFD) mappings of a BO, as closing its last handle does.
  void unmap_all(const AmdgpuBo& bo, bool made_by_kfd);

  std::optional<GpuMapping> find(std::uint64_t address) const;
  // The mapping that starts exactly at `start`.
  std::optional<GpuMapping> find_start(std::uint64_t start) const;
  std::vector<GpuMapping> mappings_of(const AmdgpuBo& bo) const;
  std::size_t mapping_count() const;
  // Adds `delta` to queue_references of the mapping at `start`. ENOENT.
  Result<void> pin_for_queue(std::uint64_t start, int delta);

  // Engines' access. False with *fault filled on a miss, a forbidden access or vanished user pages;
  // `*moved_bytes` (optional) says how far it came. Ranges may span mappings.
  bool read(std::uint64_t address, std::span<std::byte> into, GpuFault* fault) const;
  bool write(std::uint64_t address, std::span<const std::byte> from, GpuFault* fault) const;
  // Bytes of a BO-backed range for in-place atomics and copies: as much as is contiguous in one mapping, at
  // most max_bytes. Empty with *fault set on a miss; empty without fault for userptr pages (use read/write).
  std::span<std::byte> contiguous(std::uint64_t address, std::uint64_t max_bytes, Access access,
                                  GpuFault* fault) const;

 private:
  Result<void> map_locked(GpuMapping mapping);
  void clear_locked(std::uint64_t start, std::uint64_t size_bytes);
  mutable std::mutex mutex_;
  std::map<std::uint64_t, GpuMapping> by_start_;
};

}  // namespace understudy::kfd
