// GemNames: global (flink) names of a device's buffer objects: a number by which any file of the device can
// open the object, as long as some file has a handle of it.
//
// Owner: Device. Units: names count from 1, lowest free first. Errors: ENOENT. Thread-safety: locks itself.
// Mirrors: drm_gem.c: drm_gem_flink_ioctl, drm_gem_object_handle_free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "sim/core/result.h"

namespace understudy::drm {

class GemObject;

class GemNames {
 public:
  // A file got or lost a handle of `object`; with the last one the name goes.
  void handle_added(const GemObject& object);
  void handle_removed(const GemObject& object);

  Result<std::uint32_t> name_of(GemObject& object);
  Result<std::shared_ptr<GemObject>> find(std::uint32_t name) const;

 private:
  struct Known {
    unsigned handle_count = 0;
    std::uint32_t name = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<const GemObject*, Known> objects_;        // guarded by mutex_
  std::map<std::uint32_t, std::weak_ptr<GemObject>> by_name_;  // guarded by mutex_
};

}  // namespace understudy::drm
