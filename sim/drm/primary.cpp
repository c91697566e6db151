#include "sim/drm/primary.h"

namespace understudy::drm {

void PrimaryState::opened() {
  const std::lock_guard lock(seat_.mutex_);
  if (seat_.holder_ != nullptr) return;
  seat_.holder_ = this;
  was_master_ = true;
  authenticated_ = true;
}

void PrimaryState::closed() {
  const std::lock_guard lock(seat_.mutex_);
  if (seat_.holder_ == this) seat_.holder_ = nullptr;
  if (magic_ != 0) seat_.magics_.erase(magic_);
}

bool PrimaryState::authenticated() const {
  const std::lock_guard lock(seat_.mutex_);
  return authenticated_;
}

bool PrimaryState::is_current_master() const {
  const std::lock_guard lock(seat_.mutex_);
  return seat_.holder_ == this;
}

std::uint32_t PrimaryState::magic() {
  const std::lock_guard lock(seat_.mutex_);
  if (magic_ == 0) {
    magic_ = seat_.next_magic_++;
    seat_.magics_[magic_] = this;
  }
  return magic_;
}

Result<void> PrimaryState::authenticate(std::uint32_t magic) {
  const std::lock_guard lock(seat_.mutex_);
  const auto found = seat_.magics_.find(magic);
  if (found == seat_.magics_.end()) return Errno(EINVAL);
  found->second->authenticated_ = true;
  found->second->magic_ = 0;
  seat_.magics_.erase(found);
  return {};
}

Result<void> PrimaryState::set_master(bool privileged) {
  const std::lock_guard lock(seat_.mutex_);
  if (!was_master_ && !privileged) return Errno(EACCES);
  if (seat_.holder_ == this) return {};
  if (seat_.holder_ != nullptr) return Errno(EBUSY);
  seat_.holder_ = this;
  was_master_ = true;
  authenticated_ = true;
  return {};
}

Result<void> PrimaryState::drop_master(bool privileged) {
  const std::lock_guard lock(seat_.mutex_);
  if (!was_master_ && !privileged) return Errno(EACCES);
  if (seat_.holder_ != this) return Errno(EINVAL);
  seat_.holder_ = nullptr;
  return {};
}

}  // namespace understudy::drm
