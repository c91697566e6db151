// fopen(3) and freopen(3): libc opens their files without asking anybody, so those in the tree are opened
// here and given to it as descriptors.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "sim/door/shim/export.h"
#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/open_file.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(fopen);
UNDERSTUDY_NEXT(freopen);

// The open flags of a mode ("r+e"), or -1.
int flags_of(const char* mode) {
  int flags;
  switch (mode[0]) {
    case 'r':
      flags = O_RDONLY;
      break;
    case 'w':
      flags = O_WRONLY | O_CREAT | O_TRUNC;
      break;
    case 'a':
      flags = O_WRONLY | O_CREAT | O_APPEND;
      break;
    default:
      return -1;
  }
  for (const char* extra = mode + 1; *extra != '\0' && *extra != ','; ++extra) {
    if (*extra == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*extra == 'x') flags |= O_EXCL;
    if (*extra == 'e') flags |= O_CLOEXEC;
  }
  return flags;
}

FILE* fail_to_open(long error) {
  errno = static_cast<int>(error);
  return nullptr;
}

FILE* stream_of(int fd, const char* mode) {
  FILE* const stream = ::fdopen(fd, mode);
  if (stream == nullptr) raw(SYS_close, fd);
  return stream;
}

// A stream just opened by libc on a relative path.
FILE* finish_stream(FILE* stream, const char* mode) {
  if (stream == nullptr || !root::active()) return stream;
  const long fd = finish_open(::fileno(stream), flags_of(mode));
  if (fd >= 0) return stream;
  ::fclose(stream);
  return fail_to_open(-fd);
}

}  // namespace

UNDERSTUDY_EXPORT FILE* fopen(const char* path, const char* mode) {
  const Place place(AT_FDCWD, path);
  if (!place.in_tree()) {
    auto* const next = next_fopen.get();
    if (next == nullptr) return fail_to_open(ENOSYS);
    FILE* const stream = next(place.path(), mode);
    return path[0] == '/' ? stream : finish_stream(stream, mode);
  }
  const int flags = flags_of(mode);
  if (flags < 0) return fail_to_open(EINVAL);
  const long fd = open_in_tree(place, flags);
  return fd < 0 ? fail_to_open(-fd) : stream_of(static_cast<int>(fd), mode);
}

UNDERSTUDY_EXPORT FILE* freopen(const char* path, const char* mode, FILE* stream) {
  auto* const next = next_freopen.get();
  if (next == nullptr) return fail_to_open(ENOSYS);
  const Place place(AT_FDCWD, path);
  if (!place.in_tree()) return next(place.path(), mode, stream);
  // Through the descriptor's name, since only libc can change what a stream stands for.
  const int flags = flags_of(mode);
  if (flags < 0) return fail_to_open(EINVAL);
  const long fd = open_in_tree(place, flags | O_CLOEXEC);
  if (fd < 0) {
    ::fclose(stream);
    return fail_to_open(-fd);
  }
  FILE* const reopened = next(FdLink(static_cast<int>(fd)).path(), mode, stream);
  raw(SYS_close, fd);
  return reopened;
}

UNDERSTUDY_EXPORT FILE* fopen64(const char*, const char*) UNDERSTUDY_ALIAS(fopen);
UNDERSTUDY_EXPORT FILE* freopen64(const char*, const char*, FILE*) UNDERSTUDY_ALIAS(freopen);

}  // namespace understudy::shim
