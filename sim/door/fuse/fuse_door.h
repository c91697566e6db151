// FuseDoor: the machine's tree as a fuse mount. Open device files are real open file descriptions of the
// kernel, so dup, fork, exec, SCM_RIGHTS and close (even by SIGKILL) need no help, and programs without the
// shim can use them through plain system calls (no mmap, no descriptors from calls: fuse files cannot).
//
// Owner: see Door. Units: none. Errors: mount says in words what failed. Thread-safety: all methods from any
// thread. Mirrors: drivers/base/devtmpfs.c and fs/sysfs as seen through fs/fuse.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "sim/door/door.h"
#include "sim/door/fuse/handle.h"
#include "sim/door/fuse/inode_table.h"
#include "sim/door/fuse/interrupts.h"
#include "sim/door/fuse/session_threads.h"
#include "sim/door/shimless_clients.h"

namespace understudy::door {

class FuseDoor : public Door, public SessionData {
 public:
  // Mounts at the directory `mount_point`; on failure `why` is a clause for a message.
  static Result<std::unique_ptr<FuseDoor>> mount(Machine& machine, const std::string& mount_point,
                                                 std::string* why);
  ~FuseDoor() override;

  std::string_view name() const override { return "fuse"; }
  dev_t tree_device() const override { return device_; }
  bool is_ambiguous(FileId id) const override { return inodes_.is_ambiguous(id); }
  std::vector<ShimlessClient> shimless_clients() const override { return shimless_.all(); }

 private:
  struct Operations;
  friend struct Operations;

  explicit FuseDoor(Machine& machine) : Door(machine), SessionData(machine), shimless_(machine) {}
  void open_node(fuse_req_t request, fuse_ino_t number, const NodeRef& node, fuse_file_info* info);

  InodeTable inodes_;
  HandleTable handles_;
  ShimlessClients shimless_;
  dev_t device_ = 0;
  std::unique_ptr<fuse_session, void (*)(fuse_session*)> session_{nullptr, nullptr};
  bool mounted_ = false;
  std::unique_ptr<SessionThreads> threads_;
};

}  // namespace understudy::door
