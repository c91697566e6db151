// TreeWriter: writes a machine's tree into a directory of the host, and follows its changes.
//
// Owner: SocketDoor. Units: none. Errors: the errno of what could not be written; failed_path() names it.
// Thread-safety: one thread at a time. Mirrors: devtmpfs and sysfs, as a photograph that is touched up.
#pragma once

#include <string>

#include "sim/core/fd.h"
#include "sim/door/tree.h"

namespace understudy::door {

class TreeWriter {
 public:
  // `root` is the open directory that the tree appears in.
  TreeWriter(const Tree& tree, UniqueFd root) : tree_(tree), root_(std::move(root)) {}

  Result<void> write_all();
  // What is at `path` ("sys/class/...") now: made, made anew or removed.
  Result<void> update(const std::string& path);
  const std::string& failed_path() const { return failed_path_; }

 private:
  Result<void> write_directory(int directory, const TreeItem& item, const std::string& path);
  Result<void> write_item(int directory, const std::string& name, const TreeItem& item,
                          const std::string& path);
  Result<UniqueFd> open_parent(const std::string& path) const;

  const Tree& tree_;
  const UniqueFd root_;
  std::string failed_path_;
};

}  // namespace understudy::door
