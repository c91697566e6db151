// BoLists: named sets of BOs that a submission refers to.
//
// Owner: AmdgpuFile. Units: none. Errors: ENOENT for an unknown list or handle, EINVAL, EFAULT; EPERM for
// another process's user pages. Thread-safety: locks itself. Mirrors: amdgpu_bo_list.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/call.h"
#include "sim/kfd/amdgpu_bo.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {

class AmdgpuFile;

using ListedBos = std::vector<BoRef>;

// amdgpu_bo_create_list_entry_array: the caller's stride may be smaller or larger than ours.
Result<std::vector<uapi::amdgpu::drm_amdgpu_bo_list_entry>> read_bo_list_entries(
    Call& call, const uapi::amdgpu::drm_amdgpu_bo_list_in& in);
// amdgpu_bo_list_create.
Result<ListedBos> make_bo_list(AmdgpuFile& file, Call& call,
                               const std::vector<uapi::amdgpu::drm_amdgpu_bo_list_entry>& entries);

class BoLists {
 public:
  // Handles from 1, lowest free first.
  std::uint32_t add(ListedBos list);
  Result<std::shared_ptr<const ListedBos>> find(std::uint32_t handle) const;
  Result<void> replace(std::uint32_t handle, ListedBos list);
  // Destroying an unknown list is no error in the driver.
  void remove(std::uint32_t handle);
  void clear();

 private:
  using Lists = std::map<std::uint32_t, std::shared_ptr<const ListedBos>>;
  mutable std::mutex mutex_;
  Lists lists_;  // guarded by mutex_
};

}  // namespace understudy::kfd
