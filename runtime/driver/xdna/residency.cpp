#include "runtime/driver/xdna/residency.h"

namespace hsa_rt::xdna {

void ResidencyTable::add(ResidentBuffer buffer) {
  const std::lock_guard guard(lock_);
  const uint64_t base = buffer.span.base;
  buffers_.emplace(base, std::move(buffer));
}

void ResidencyTable::remove(uint64_t base) {
  std::shared_ptr<drm::GemRef> last;  // goes after the lock
  const std::lock_guard guard(lock_);
  const auto found = buffers_.find(base);
  if (found == buffers_.end()) return;
  last = std::move(found->second.gem);
  buffers_.erase(found);
}

std::optional<ResidentBuffer> ResidencyTable::find(uint64_t address) const {
  const std::lock_guard guard(lock_);
  // The nearest one below decides, except that user memory may be registered in overlapping pieces.
  for (auto at = buffers_.upper_bound(address); at != buffers_.begin();) {
    --at;
    if (at->second.span.contains(address)) return at->second;
  }
  return std::nullopt;
}

}  // namespace hsa_rt::xdna
