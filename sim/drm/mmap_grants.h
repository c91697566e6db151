// MmapGrants: objects a file may map at their fake offset although it holds no GEM handle of them: what KFD
// allocates on behalf of the file given to ACQUIRE_VM.
//
// Owner: DrmFile. Units: none. Errors: none. Thread-safety: locks itself.
// Mirrors: drm_vma_manager.c: drm_vma_node_allow, drm_vma_node_revoke (counted), drm_vma_node_is_allowed.
#pragma once

#include <mutex>
#include <unordered_map>

namespace understudy::drm {

class GemObject;

class MmapGrants {
 public:
  void allow(const GemObject& object) {
    const std::lock_guard lock(mutex_);
    ++counts_[&object];
  }
  void revoke(const GemObject& object) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(&object);
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
  }
  bool allows(const GemObject& object) const {
    const std::lock_guard lock(mutex_);
    return counts_.contains(&object);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const GemObject*, unsigned> counts_;  // guarded by mutex_
};

}  // namespace understudy::drm
