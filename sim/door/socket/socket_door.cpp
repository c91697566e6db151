#include "sim/door/socket/socket_door.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "sim/door/channel_protocol.h"

namespace understudy::door {
namespace {

Result<void> write_file(int directory, const std::string& name, std::string_view content, mode_t mode,
                        std::optional<Stamp> stamp = std::nullopt) {
  const UniqueFd fd(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return last_errno();
  while (!content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0) return last_errno();
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!stamp) return {};
  const timespec time{stamp->seconds, static_cast<long>(stamp->nanoseconds)};
  const timespec times[2] = {time, time};
  if (::futimens(fd.get(), times) != 0) return last_errno();
  return {};
}

class TreeWriter {
 public:
  explicit TreeWriter(const Tree& tree) : tree_(tree) {}

  // Writes what `item` contains into the open directory; `path` names it below the tree's root.
  Result<void> write_directory(int directory, const TreeItem& item, const std::string& path) {
    for (const auto& [name, child] : tree_.list(item)) {
      const Result<void> written =
          write_item(directory, name, child, path.empty() ? name : path + "/" + name);
      if (!written) {
        if (failed_path_.empty()) failed_path_ = path + "/" + name;
        return written;
      }
    }
    return {};
  }

  const std::string& failed_path() const { return failed_path_; }

 private:
  Result<void> write_item(int directory, const std::string& name, const TreeItem& item,
                          const std::string& path) {
    if (is_directory(item)) {
      if (::mkdirat(directory, name.c_str(), 0755) != 0) return last_errno();
      const UniqueFd inside(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!inside) return last_errno();
      return write_directory(inside.get(), item, path);
    }
    if (const auto* node = std::get_if<NodeRef>(&item)) {
      const dev_t number = (*node)->device_number();
      return write_file(directory, name, {}, (*node)->permissions(),
                        node_stamp(major(number), minor(number)));
    }
    const SysfsTree::Entry& entry = *std::get<SysfsItem>(item).entry;
    if (const auto* link = std::get_if<SysfsTree::Link>(&entry.what)) {
      if (::symlinkat(link->target.c_str(), directory, name.c_str()) != 0) return last_errno();
      return {};
    }
    const auto& attribute = std::get<SysfsTree::Attribute>(entry.what);
    return write_file(directory, name, attribute.text, attribute.mode,
                      attribute.show ? std::optional(kDynamicStamp) : std::nullopt);
  }

  const Tree& tree_;
  std::string failed_path_;
};

}  // namespace

Result<std::unique_ptr<SocketDoor>> SocketDoor::create(Machine& machine, const std::string& tree_directory,
                                                       std::string* why) {
  std::unique_ptr<SocketDoor> door(new SocketDoor(machine));
  const auto fail = [why](const std::string& path, Errno error) {
    *why = "cannot write " + path + ": " + std::strerror(error.number());
    return error;
  };
  const UniqueFd root(::open(tree_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail(tree_directory, last_errno());
  TreeWriter writer(door->tree());
  if (const Result<void> written = writer.write_directory(root.get(), RootDirectory{}, ""); !written)
    return fail(tree_directory + "/" + writer.failed_path(), written.error());
  return door;
}

}  // namespace understudy::door
