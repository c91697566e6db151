// PrimaryState: what only primary (card) nodes know: magic numbers, authentication, the current master.
//
// Owner: DrmFile, over a MasterSeat that the device shares. Units: none. Errors: EINVAL for an unknown magic
// or no mastership. Thread-safety: locks itself. Mirrors: drm_auth.c.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "sim/core/result.h"

namespace understudy::drm {

class PrimaryState;

// drm_device.master.
class MasterSeat {
 private:
  friend class PrimaryState;
  std::mutex mutex_;
  const PrimaryState* holder_ = nullptr;           // guarded by mutex_
  std::uint32_t next_magic_ = 1;                   // guarded by mutex_
  std::map<std::uint32_t, PrimaryState*> magics_;  // guarded by mutex_
};

class PrimaryState {
 public:
  explicit PrimaryState(MasterSeat& seat) : seat_(seat) {}
  // drm_master_open: the first opener of a primary node becomes master and is authenticated.
  void opened();
  void closed();

  bool authenticated() const;
  bool is_current_master() const;
  std::uint32_t magic();
  Result<void> authenticate(std::uint32_t magic);
  // `privileged`: CAP_SYS_ADMIN. EBUSY when somebody else is master, EACCES/EINVAL as drm_setmaster_ioctl.
  Result<void> set_master(bool privileged);
  Result<void> drop_master(bool privileged);

 private:
  MasterSeat& seat_;
  bool authenticated_ = false;  // guarded by seat_.mutex_
  bool was_master_ = false;     // guarded by seat_.mutex_
  std::uint32_t magic_ = 0;     // guarded by seat_.mutex_
};

}  // namespace understudy::drm
