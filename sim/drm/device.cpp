#include "sim/drm/device.h"

#include <utility>

namespace understudy::drm {

Result<MmapTarget> Device::map_object(Call&, DrmFile&, GemObject& object, const MmapRequest&) {
  const BufferRef buffer = object.buffer();
  if (!buffer) return Errno(EINVAL);
  return MmapTarget{TRY(buffer->open_description(Hold::kMapLockByte, true)), 0};
}

Result<GemRef> Device::create_dumb(Call&, DrmFile&, uapi::drm::drm_mode_create_dumb&) {
  return Errno(ENOSYS);
}

std::uint64_t Device::reserve_mmap_offset(GemObject& object) {
  const std::lock_guard lock(offsets_mutex_);
  // Offsets are never reused: a stale one must not show another object.
  const std::uint64_t start = std::exchange(
      next_offset_bytes_, next_offset_bytes_ + ((object.size_bytes() + 4095) & ~std::uint64_t{4095}));
  offsets_[start] = {object.size_bytes(), object.weak_from_this()};
  return start;
}

void Device::release_mmap_offset(std::uint64_t offset_bytes) {
  const std::lock_guard lock(offsets_mutex_);
  offsets_.erase(offset_bytes);
}

GemRef Device::object_at_mmap_offset(std::uint64_t offset_bytes) const {
  const std::lock_guard lock(offsets_mutex_);
  const auto found = offsets_.find(offset_bytes);
  return found == offsets_.end() ? nullptr : found->second.second.lock();
}

}  // namespace understudy::drm
