// Door: a way for clients to reach the machine: its tree somewhere in the file system, and open files with
// the kernel's own dup, fork, SCM_RIGHTS and close.
//
// Owner: the server process (or a test), beside the machine; destroying it takes the tree away. Units: none.
// Errors: factories return an errno and say in words what was tried. Thread-safety: all methods from any
// thread. Mirrors: devtmpfs, sysfs and the character device layer.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/core/file.h"
#include "sim/door/shimless_clients.h"
#include "sim/door/tree.h"

namespace understudy::door {

class Door {
 public:
  explicit Door(Machine& machine) : tree_(machine) {}
  virtual ~Door() = default;
  Door(const Door&) = delete;

  virtual std::string_view name() const = 0;
  const Tree& tree() const { return tree_; }
  // st_dev of the tree, where open files carry their id as inode number; 0: descriptors are sockets.
  virtual dev_t tree_device() const { return 0; }
  // Does the inode of this file stand for other open files too?
  virtual bool is_ambiguous(FileId) const { return false; }
  virtual std::vector<ShimlessClient> shimless_clients() const { return {}; }

 private:
  const Tree tree_;
};

}  // namespace understudy::door
