// CuseDoor: a fuse door whose nodes are in the host's /dev as well, as true character devices for programs
// without the shim. Needs root and CONFIG_CUSE.
//
// Owner: see Door. Units: none. Errors: create says in words what failed. Thread-safety: all methods from any
// thread. Mirrors: drivers/char/misc.c and chrdev as seen through fs/fuse/cuse.c.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/door/fuse/fuse_door.h"

namespace understudy::door {

class CuseDoor : public Door {
 public:
  // Mounts the tree at `mount_point` and makes a device for each of the machine's nodes.
  static Result<std::unique_ptr<CuseDoor>> create(Machine& machine, const std::string& mount_point,
                                                  std::string* why);
  ~CuseDoor() override;

  std::string_view name() const override { return "cuse"; }
  dev_t tree_device() const override { return tree_door_->tree_device(); }
  bool is_ambiguous(FileId id) const override { return tree_door_->is_ambiguous(id); }
  std::vector<ShimlessClient> shimless_clients() const override;

 private:
  class Device;
  CuseDoor(Machine& machine, std::unique_ptr<FuseDoor> tree_door);
  Result<void> add_device(Machine& machine, const NodeRef& node, std::string* why);

  const std::unique_ptr<FuseDoor> tree_door_;
  ShimlessClients shimless_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace understudy::door
