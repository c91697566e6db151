// SocketDoor: for hosts without fuse. The tree is written out as plain directories, files and links; device
// files are placeholders in whose place the shim asks for a socket that is the open file description (see
// FileTable::make_descriptor). Programs without the shim see the tree and no device.
//
// Owner: see Door. Units: none. Errors: the errno of the file that could not be written, and its name in
// words. Thread-safety: all methods from any thread. Mirrors: devtmpfs and sysfs, as a photograph; attributes
// whose content is made when read are stamped for the shim, which asks for them (kReadAttribute).
#pragma once

#include <memory>
#include <string>

#include "sim/door/door.h"
#include "sim/door/socket/tree_writer.h"

namespace understudy::door {

class SocketDoor : public Door {
 public:
  // Writes the tree below the existing directory `tree_directory`. On failure `why` is a clause for a
  // message.
  static Result<std::unique_ptr<SocketDoor>> create(Machine& machine, const std::string& tree_directory,
                                                    std::string* why);

  ~SocketDoor() override;

  std::string_view name() const override { return "socket"; }

 private:
  SocketDoor(Machine& machine, UniqueFd root)
      : Door(machine), machine_(machine), writer_(tree(), std::move(root)) {}

  Machine& machine_;
  TreeWriter writer_;
};

}  // namespace understudy::door
