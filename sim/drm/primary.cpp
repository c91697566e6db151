#include "sim/drm/primary.h"

#include <linux/capability.h>

namespace understudy::drm {

void PrimaryState::opened(const Client& opener) {
  const bool privileged = opener.has_capability(CAP_SYS_ADMIN);
  const std::lock_guard lock(seat_.mutex_);
  opener_id_ = opener.id();
  authenticated_ = privileged;
}

void PrimaryState::join_master() {
  const std::lock_guard lock(seat_.mutex_);
  if (seat_.current_) {
    master_ = seat_.current_;
  } else {
    become_new_master();
  }
}

// drm_new_set_master.
void PrimaryState::become_new_master() {
  master_ = std::make_shared<Master>();
  seat_.current_ = master_;
  is_master_ = true;
  was_master_ = true;
  authenticated_ = true;
}

void PrimaryState::closed() {
  const std::lock_guard lock(seat_.mutex_);
  if (!master_) return;
  if (magic_ != 0) master_->magics.erase(magic_);
  if (is_master_now()) seat_.current_.reset();
  master_.reset();
}

bool PrimaryState::authenticated() const {
  const std::lock_guard lock(seat_.mutex_);
  return authenticated_;
}

bool PrimaryState::is_current_master() const {
  const std::lock_guard lock(seat_.mutex_);
  return is_master_now();
}

std::uint32_t PrimaryState::magic() {
  const std::lock_guard lock(seat_.mutex_);
  if (magic_ == 0 && master_) {
    magic_ = master_->next_magic++;
    master_->magics[magic_] = this;
  }
  return magic_;
}

Result<void> PrimaryState::authenticate(std::uint32_t magic) {
  const std::lock_guard lock(seat_.mutex_);
  const auto found = master_->magics.find(magic);
  if (found == master_->magics.end() || found->second == nullptr) return Errno(EINVAL);
  found->second->authenticated_ = true;
  found->second = nullptr;
  return {};
}

// drm_master_check_perm.
Result<void> PrimaryState::check_permission(const Client& caller) const {
  if (was_master_ && caller.id() == opener_id_) return {};
  if (!caller.has_capability(CAP_SYS_ADMIN)) return Errno(EACCES);
  return {};
}

Result<void> PrimaryState::set_master(const Client& caller) {
  const std::lock_guard lock(seat_.mutex_);
  TRY(check_permission(caller));
  if (is_master_now()) return {};
  if (seat_.current_) return Errno(EBUSY);
  if (!master_) return Errno(EINVAL);
  if (is_master_) {
    seat_.current_ = master_;
  } else {
    become_new_master();
  }
  return {};
}

Result<void> PrimaryState::drop_master(const Client& caller) {
  const std::lock_guard lock(seat_.mutex_);
  TRY(check_permission(caller));
  if (!is_master_now()) return Errno(EINVAL);
  seat_.current_.reset();
  return {};
}

std::string PrimaryState::bus_id() const {
  const std::lock_guard lock(seat_.mutex_);
  return master_ ? master_->bus_id : std::string();
}

void PrimaryState::set_bus_id(std::string bus_id) {
  const std::lock_guard lock(seat_.mutex_);
  if (master_) master_->bus_id = std::move(bus_id);
}

}  // namespace understudy::drm
