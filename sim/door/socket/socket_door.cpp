#include "sim/door/socket/socket_door.h"

#include <fcntl.h>

#include <cstring>

namespace understudy::door {

Result<std::unique_ptr<SocketDoor>> SocketDoor::create(Machine& machine, const std::string& tree_directory,
                                                       std::string* why) {
  UniqueFd root(::open(tree_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) {
    *why = "cannot open " + tree_directory + ": " + std::strerror(errno);
    return last_errno();
  }
  std::unique_ptr<SocketDoor> door(new SocketDoor(machine, std::move(root)));
  if (const Result<void> written = door->writer_.write_all(); !written) {
    *why = "cannot write " + tree_directory + "/" + door->writer_.failed_path() + ": " +
           std::strerror(written.error().number());
    return written.error();
  }
  machine.sysfs().observe([raw = door.get()](std::string_view path, const SysfsTree::EntryRef&) {
    // A change that cannot be shown is not worth failing the driver's work for.
    (void)raw->writer_.update("sys/" + std::string(path));
  });
  return door;
}

SocketDoor::~SocketDoor() {
  machine_.sysfs().observe({});
}

}  // namespace understudy::door
