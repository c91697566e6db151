// Tree: what a machine shows below its root, for every door: dev/ (its nodes), sys/ (its sysfs tree) and
// proc/modules.
//
// Owner: a door; borrows the machine. Units: none. Errors: look-ups of missing names return nothing.
// Thread-safety: all methods from any thread. Mirrors: devtmpfs, sysfs and kernel/module/procfs.c.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/core/file.h"
#include "sim/core/machine.h"
#include "sim/core/sysfs.h"

namespace understudy::door {

struct RootDirectory {};
struct DeviceDirectory {
  std::string path;  // below dev/, empty for dev itself
};
using NodeRef = std::shared_ptr<Node>;
struct SysfsItem {
  const SysfsTree* tree = nullptr;
  bool is_proc = false;
  SysfsTree::EntryRef entry;
};
using TreeItem = std::variant<RootDirectory, DeviceDirectory, NodeRef, SysfsItem>;

bool is_directory(const TreeItem& item);

class Tree {
 public:
  explicit Tree(Machine& machine);

  std::optional<TreeItem> child(const TreeItem& directory, std::string_view name) const;
  std::vector<std::pair<std::string, TreeItem>> list(const TreeItem& directory) const;
  // Follows links inside sys/. "dev/kfd", "sys/class/kfd/...", "proc/modules".
  std::optional<TreeItem> find(std::string_view path) const;

 private:
  Machine& machine_;
  SysfsTree proc_;
};

}  // namespace understudy::door
