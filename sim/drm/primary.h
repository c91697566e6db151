// PrimaryState: authentication of one file and its part in the mastership of a primary (card) node.
//
// Owner: DrmFile, over a MasterSeat that the device's files share. Units: none. Errors: EINVAL for an unknown
// magic or no mastership, EACCES, EBUSY. Thread-safety: locks itself. Mirrors: drm_auth.c, and the bus id
// of drm_ioctl.c: drm_getunique, drm_set_busid.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "sim/core/client.h"
#include "sim/core/result.h"

namespace understudy::drm {

class PrimaryState;

// drm_master: what a master and the files opened under it share.
struct Master {
  std::uint32_t next_magic = 1;
  std::map<std::uint32_t, PrimaryState*> magics;  // null: used up
  std::string bus_id;
};

// drm_device.master.
class MasterSeat {
 private:
  friend class PrimaryState;
  std::mutex mutex_;
  std::shared_ptr<Master> current_;  // guarded by mutex_
};

class PrimaryState {
 public:
  explicit PrimaryState(MasterSeat& seat) : seat_(seat) {}

  // drm_file_alloc: a privileged opener is authenticated from the start, on every kind of node.
  void opened(const Client& opener);
  // drm_master_open: the first opener of a primary node becomes master.
  void join_master();
  // drm_master_release.
  void closed();

  bool authenticated() const;
  bool is_current_master() const;
  std::uint32_t magic();
  Result<void> authenticate(std::uint32_t magic);
  // Not only for the privileged: who once was master may be it again, in the process that opened the file.
  Result<void> set_master(const Client& caller);
  Result<void> drop_master(const Client& caller);

  // Empty until SET_VERSION gave it one.
  std::string bus_id() const;
  void set_bus_id(std::string bus_id);

 private:
  // The rest requires seat_.mutex_.
  Result<void> check_permission(const Client& caller) const;
  bool is_master_now() const { return is_master_ && master_ == seat_.current_; }
  void become_new_master();

  MasterSeat& seat_;
  std::shared_ptr<Master> master_;  // null on nodes without masters
  std::uint64_t opener_id_ = 0;
  bool authenticated_ = false;
  bool is_master_ = false;
  bool was_master_ = false;
  std::uint32_t magic_ = 0;
};

}  // namespace understudy::drm
