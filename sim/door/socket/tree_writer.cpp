#include "sim/door/socket/tree_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <optional>

#include "sim/door/channel_protocol.h"

namespace understudy::door {
namespace {

Result<void> write_file(int directory, const std::string& name, std::string_view content, mode_t mode,
                        std::optional<Stamp> stamp) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  UniqueFd fd(::openat(directory, name.c_str(), kFlags, mode));
  if (!fd && errno == EEXIST && ::unlinkat(directory, name.c_str(), 0) == 0)
    fd = UniqueFd(::openat(directory, name.c_str(), kFlags, mode));
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

Result<UniqueFd> open_directory(int parent, const char* name) {
  UniqueFd directory(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return last_errno();
  return directory;
}

// Like rm -r, for what this writer wrote: nothing else is ever there.
void remove_all(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0) return;
  Result<UniqueFd> directory = open_directory(parent, name);
  if (!directory) return;
  DIR* listing = ::fdopendir(directory.value().release());
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view child = entry->d_name;
    if (child != "." && child != "..") remove_all(::dirfd(listing), entry->d_name);
  }
  ::closedir(listing);
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

std::string leaf_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Result<void> TreeWriter::write_all() {
  return write_directory(root_.get(), RootDirectory{}, "");
}

Result<void> TreeWriter::write_directory(int directory, const TreeItem& item, const std::string& path) {
  for (const auto& [name, child] : tree_.list(item)) {
    const std::string child_path = path.empty() ? name : path + "/" + name;
    const Result<void> written = write_item(directory, name, child, child_path);
    if (written) continue;
    if (failed_path_.empty()) failed_path_ = child_path;
    return written;
  }
  return {};
}

Result<void> TreeWriter::write_item(int directory, const std::string& name, const TreeItem& item,
                                    const std::string& path) {
  if (is_directory(item)) {
    if (::mkdirat(directory, name.c_str(), 0755) != 0 && errno != EEXIST) return last_errno();
    const UniqueFd inside = TRY(open_directory(directory, name.c_str()));
    return write_directory(inside.get(), item, path);
  }
  if (const auto* node = std::get_if<NodeRef>(&item)) {
    const dev_t number = (*node)->device_number();
    return write_file(directory, name, {}, (*node)->permissions(), node_stamp(major(number), minor(number)));
  }
  const SysfsTree::Entry& entry = *std::get<SysfsItem>(item).entry;
  if (const auto* link = std::get_if<SysfsTree::Link>(&entry.what)) {
    ::unlinkat(directory, name.c_str(), 0);
    if (::symlinkat(link->target.c_str(), directory, name.c_str()) != 0) return last_errno();
    return {};
  }
  const auto& attribute = std::get<SysfsTree::Attribute>(entry.what);
  return write_file(directory, name, attribute.text, attribute.mode,
                    attribute.show ? std::optional(kDynamicStamp) : std::nullopt);
}

Result<UniqueFd> TreeWriter::open_parent(const std::string& path) const {
  UniqueFd at = TRY(root_.dup());
  std::size_t begin = 0;
  for (std::size_t slash; (slash = path.find('/', begin)) != std::string::npos; begin = slash + 1) {
    const std::string name = path.substr(begin, slash - begin);
    if (::mkdirat(at.get(), name.c_str(), 0755) != 0 && errno != EEXIST) return last_errno();
    at = TRY(open_directory(at.get(), name.c_str()));
  }
  return at;
}

Result<void> TreeWriter::update(const std::string& path) {
  const UniqueFd parent = TRY(open_parent(path));
  const std::size_t slash = path.rfind('/');
  const std::optional<TreeItem> directory = tree_.find(path.substr(0, slash));
  const std::string name = leaf_of(path);
  const std::optional<TreeItem> item = directory ? tree_.child(*directory, name) : std::nullopt;
  if (item) return write_item(parent.get(), name, *item, path);
  remove_all(parent.get(), name.c_str());
  return {};
}

}  // namespace understudy::door
