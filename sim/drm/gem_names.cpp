#include "sim/drm/gem_names.h"

#include "sim/drm/gem.h"

namespace understudy::drm {

void GemNames::handle_added(const GemObject& object) {
  const std::lock_guard lock(mutex_);
  ++objects_[&object].handle_count;
}

void GemNames::handle_removed(const GemObject& object) {
  const std::lock_guard lock(mutex_);
  const auto known = objects_.find(&object);
  if (--known->second.handle_count > 0) return;
  by_name_.erase(known->second.name);
  objects_.erase(known);
}

Result<std::uint32_t> GemNames::name_of(GemObject& object) {
  const std::lock_guard lock(mutex_);
  const auto known = objects_.find(&object);
  if (known == objects_.end()) return Errno(ENOENT);
  std::uint32_t& name = known->second.name;
  if (name != 0) return name;
  name = 1;
  for (const auto& [taken, holder] : by_name_) {
    if (taken != name) break;
    ++name;
  }
  by_name_[name] = object.weak_from_this();
  return name;
}

Result<std::shared_ptr<GemObject>> GemNames::find(std::uint32_t name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  std::shared_ptr<GemObject> object = found == by_name_.end() ? nullptr : found->second.lock();
  if (!object) return Errno(ENOENT);
  return object;
}

}  // namespace understudy::drm
