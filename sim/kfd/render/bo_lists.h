// BoLists: named sets of BOs that a submission refers to.
//
// Owner: AmdgpuFile. Units: none. Errors: ENOENT for an unknown handle. Thread-safety: locks itself.
// Mirrors: amdgpu_bo_list.c.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/kfd/amdgpu_bo.h"

namespace understudy::kfd {

class BoLists {
 public:
  // Handles from 1, lowest free first.
  std::uint32_t add(std::vector<BoRef> bos) {
    const std::lock_guard lock(mutex_);
    std::uint32_t handle = 1;
    while (lists_.contains(handle)) ++handle;
    lists_[handle] = std::move(bos);
    return handle;
  }
  std::optional<std::vector<BoRef>> find(std::uint32_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = lists_.find(handle);
    if (found == lists_.end()) return std::nullopt;
    return found->second;
  }
  bool replace(std::uint32_t handle, std::vector<BoRef> bos) {
    const std::lock_guard lock(mutex_);
    const auto found = lists_.find(handle);
    if (found == lists_.end()) return false;
    found->second = std::move(bos);
    return true;
  }
  // Destroying an unknown list is no error in the driver.
  void remove(std::uint32_t handle) {
    const std::lock_guard lock(mutex_);
    lists_.erase(handle);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    lists_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::vector<BoRef>> lists_;  // guarded by mutex_
};

}  // namespace understudy::kfd
