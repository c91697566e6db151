#include "sim/door/shim/open_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sim/door/channel_protocol.h"
#include "sim/door/shim/call.h"
#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

constexpr unsigned kMaxPathBytes = 1024;

// Moves `other` to the number `fd`, in place of what is there.
long replace(int fd, int other, int flags) {
  const long result = raw(SYS_dup3, other, fd, flags & O_CLOEXEC);
  raw(SYS_close, other);
  return result;
}

// Path of an open file below the tree ("sys/class/..."), or null.
const char* path_in_tree(int fd, char (&buffer)[kMaxPathBytes]) {
  const long got = raw(SYS_readlinkat, AT_FDCWD, FdLink(fd).path(), buffer, sizeof buffer - 1);
  if (got <= 0) return nullptr;
  buffer[got] = '\0';
  const char* const name = root::name_on_machine(buffer);
  return name == nullptr ? nullptr : name + 1;
}

// The socket door's node: its file is a socket that the server makes.
long open_node(int fd, int flags) {
  constexpr std::size_t kDevice = sizeof "dev/" - 1;
  char buffer[kMaxPathBytes];
  const char* const path = path_in_tree(fd, buffer);
  if (path == nullptr || ::strncmp(path, "dev/", kDevice) != 0) return -ENODEV;
  door::RequestHeader request{};
  request.kind = door::kOpen;
  request.flags = static_cast<std::uint32_t>(flags);
  request.payload_bytes = static_cast<std::uint32_t>(::strlen(path + kDevice) + 1);
  Call call;
  if (const int error = call.perform(request, path + kDevice)) return -error;
  if (call.value() < 0) return call.value();
  if (call.fds_lost()) return -EMFILE;
  if (call.fd_count() != 1) return -EIO;
  return replace(fd, call.take_fd(0), flags);
}

// A read-only file with the content, at its start.
long make_copy(const struct stat& attribute, const std::byte* content, std::size_t bytes) {
  const long writable = raw(SYS_memfd_create, "understudy-attribute", MFD_CLOEXEC);
  if (writable < 0) return writable;
  const timespec times[2] = {{0, UTIME_OMIT}, stamp_of_copy(attribute.st_ino)};
  long result = raw(SYS_pwrite64, writable, content, bytes, 0);
  if (result >= 0) result = raw(SYS_utimensat, writable, nullptr, times, 0);
  if (result >= 0)
    result = raw(SYS_openat, AT_FDCWD, FdLink(static_cast<int>(writable)).path(), O_RDONLY | O_CLOEXEC);
  raw(SYS_close, writable);
  return result;
}

// The socket door's attributes whose content is made when they are opened.
long open_attribute(int fd, const struct stat& attribute, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) return -EACCES;
  char buffer[kMaxPathBytes];
  const char* const path = path_in_tree(fd, buffer);
  if (path == nullptr) return -ENOENT;
  door::RequestHeader request{};
  request.kind = door::kReadAttribute;
  request.payload_bytes = static_cast<std::uint32_t>(::strlen(path) + 1);
  Call call;
  if (const int error = call.perform(request, path)) return -error;
  if (call.value() < 0) return call.value();
  const long content = make_copy(attribute, call.payload(), call.reply().payload_bytes);
  if (content < 0) return content;
  return replace(fd, static_cast<int>(content), flags);
}

// sysfs and this /dev let nobody make files.
long may_create(const char* path, int flags) {
  struct stat ignored;
  const bool exists = raw(SYS_newfstatat, AT_FDCWD, path, &ignored, 0) == 0;
  if (exists && (flags & O_EXCL)) return -EEXIST;
  return exists ? 0 : -EACCES;
}

// kernfs_fop_open refuses even root to write to what has no such method.
bool may_write(int fd, int flags) {
  struct stat info;
  if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) || raw(SYS_fstat, fd, &info) != 0) return true;
  return !S_ISREG(info.st_mode) || (info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) != 0;
}

}  // namespace

long open_in_tree(const Place& place, int flags) {
  if ((flags & O_CREAT) != 0) {
    if (const long error = may_create(place.path(), flags)) return error;
    flags &= ~(O_CREAT | O_EXCL);
  }
  // Truncating changes nothing there, but would set a placeholder's time stamp.
  flags &= ~O_TRUNC;
  // Makes itself known before it opens: a client that has not is taken for one without the shim.
  int error = 0;
  if (place.is_device() && meet_machine(&error) == nullptr) return -error;
  const long fd = raw(SYS_openat, AT_FDCWD, place.path(), flags);
  if (fd < 0) return fd == -ENOTCONN || fd == -ECONNABORTED ? -ENODEV : fd;
  const long result =
      may_write(static_cast<int>(fd), flags) ? finish_open(static_cast<int>(fd), flags) : -EACCES;
  if (result < 0) raw(SYS_close, fd);
  return result;
}

long finish_open(int fd, int flags) {
  struct stat info;
  if ((flags & (O_PATH | O_DIRECTORY)) || raw(SYS_fstat, fd, &info) != 0) return fd;
  DeviceNumber number;
  if (is_node(info, &number)) return (info.st_ino & door::kOpenFileInodeBit) ? fd : open_node(fd, flags);
  return is_dynamic_attribute(info) ? open_attribute(fd, info, flags) : fd;
}

}  // namespace understudy::shim
