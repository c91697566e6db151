// open(2) under all its names. Mirrors: fs/open.c.
#include <fcntl.h>
#include <stdarg.h>

#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/open_file.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(open);
UNDERSTUDY_NEXT(openat);

int next_of_openat(int directory, const char* path, int flags, mode_t mode) {
  // Not always openat: who stands behind us may know only open.
  if (directory == AT_FDCWD) {
    if (auto* const next = next_open.get()) return next(path, flags, mode);
  } else if (auto* const next = next_openat.get()) {
    return next(directory, path, flags, mode);
  }
  return as_library_result(raw(SYS_openat, directory, path, flags, mode));
}

// A socket cannot be opened again under its name in /proc, but the node that it stands for can.
bool names_node_socket(const char* path, DeviceNumber* number) {
  const int fd = errno == ENXIO && root::active() ? descriptor_named_by(path) : -1;
  return fd >= 0 && is_machine_socket(fd, number) && number->major != 0;
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
  const Place place(directory, path);
  if (place.in_tree()) return as_library_result(open_in_tree(place, flags));
  const int fd = next_of_openat(place.directory(), place.path(), flags, mode);
  DeviceNumber number;
  if (fd < 0 && names_node_socket(path, &number))
    return open_at(AT_FDCWD, NodePath(number).on_machine(), flags, mode);
  if (fd < 0 || !root::active() || path[0] == '/') return fd;
  const long result = finish_open(fd, flags);
  if (result < 0) raw(SYS_close, fd);
  return as_library_result(result);
}

bool takes_mode(int flags) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace

UNDERSTUDY_EXPORT int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return open_at(AT_FDCWD, path, flags, mode);
}

UNDERSTUDY_EXPORT int openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (takes_mode(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return open_at(directory, path, flags, mode);
}

UNDERSTUDY_EXPORT int creat(const char* path, mode_t mode) {
  return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

// What programs built with _FORTIFY_SOURCE call.
UNDERSTUDY_EXPORT int __open_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, 0);
}
UNDERSTUDY_EXPORT int __openat_2(int directory, const char* path, int flags) {
  return open_at(directory, path, flags, 0);
}

UNDERSTUDY_EXPORT int open64(const char*, int, ...) UNDERSTUDY_ALIAS(open);
UNDERSTUDY_EXPORT int openat64(int, const char*, int, ...) UNDERSTUDY_ALIAS(openat);
UNDERSTUDY_EXPORT int creat64(const char*, mode_t) UNDERSTUDY_ALIAS(creat);
UNDERSTUDY_EXPORT int __open64_2(const char*, int) UNDERSTUDY_ALIAS(__open_2);
UNDERSTUDY_EXPORT int __openat64_2(int, const char*, int) UNDERSTUDY_ALIAS(__openat_2);

}  // namespace understudy::shim
