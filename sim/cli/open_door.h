// Choosing and opening a machine's door.
//
// Owner: stateless. Units: none. Errors: UsageError says why a door that was asked for does not open.
// Thread-safety: stateless.
#pragma once

#include <memory>
#include <string>

#include "sim/door/door.h"

namespace understudy::cli {

enum class DoorChoice : std::uint8_t { kAuto, kFuse, kSocket, kCuse };

struct OpenedDoor {
  std::unique_ptr<door::Door> door;
  // kAuto only: why not fuse.
  std::string why_not_fuse;
};

// The tree appears at the existing directory `mount_point`.
OpenedDoor open_door(DoorChoice choice, Machine& machine, const std::string& mount_point);

// Throws when a tree cannot be mounted at `directory`: missing, in use, not empty.
void check_mount_point(const std::string& directory);

}  // namespace understudy::cli
