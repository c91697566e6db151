#include "sim/cli/open_door.h"

#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>

#include "sim/cli/usage_error.h"
#include "sim/door/cuse/cuse_door.h"
#include "sim/door/fuse/fuse_door.h"
#include "sim/door/socket/socket_door.h"

namespace understudy::cli {

OpenedDoor open_door(DoorChoice choice, Machine& machine, const std::string& mount_point) {
  OpenedDoor opened;
  if (choice == DoorChoice::kAuto || choice == DoorChoice::kFuse) {
    Result<std::unique_ptr<door::FuseDoor>> fuse =
        door::FuseDoor::mount(machine, mount_point, &opened.why_not_fuse);
    if (fuse) {
      opened.door = std::move(fuse).value();
      return opened;
    }
    if (choice == DoorChoice::kFuse)
      throw UsageError(
          fmt::format("the fuse door does not open: {} (understudy doctor tells more; --door socket "
                      "needs no fuse)",
                      opened.why_not_fuse));
  }
  std::string why;
  if (choice == DoorChoice::kCuse) {
    Result<std::unique_ptr<door::CuseDoor>> cuse = door::CuseDoor::create(machine, mount_point, &why);
    if (!cuse)
      throw UsageError(
          fmt::format("the cuse door does not open: {} (it needs root and: modprobe cuse)", why));
    opened.door = std::move(cuse).value();
    return opened;
  }
  Result<std::unique_ptr<door::SocketDoor>> socket = door::SocketDoor::create(machine, mount_point, &why);
  if (!socket) throw UsageError(fmt::format("the socket door does not open: {}", why));
  opened.door = std::move(socket).value();
  return opened;
}

void check_mount_point(const std::string& directory) {
  std::error_code error;
  const auto refuse = [&directory](const std::string& why) {
    throw UsageError(fmt::format("cannot use mount point {}: {}", directory, why));
  };
  struct statx found {};
  if (::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0)
    refuse(std::error_code(errno, std::generic_category()).message());
  if (!S_ISDIR(found.stx_mode)) refuse("it is not a directory");
  if (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) refuse("it is busy: something is mounted there already");
  if (!std::filesystem::is_empty(directory, error)) refuse(error ? error.message() : "it is not empty");
}

}  // namespace understudy::cli
