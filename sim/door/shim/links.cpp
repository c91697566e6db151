// readlink(2): links into the tree, and those of /proc that name what a descriptor or working directory is.
// Mirrors: fs/proc/base.c: proc_pid_readlink; dma-buf.c: dmabuffs_dname.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <string_view>

#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/dmabuf.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/fd_link.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/place.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/text.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(readlink);
UNDERSTUDY_NEXT(readlinkat);

constexpr unsigned kMaxTargetBytes = 1024;

ssize_t next_of_readlinkat(int directory, const char* path, char* target, size_t size) {
  if (directory == AT_FDCWD) {
    if (auto* const next = next_readlink.get()) return next(path, target, size);
  } else if (auto* const next = next_readlinkat.get()) {
    return next(directory, path, target, size);
  }
  return as_library_result(raw(SYS_readlinkat, directory, path, target, size));
}

// What the kernel's own driver would have named the file, in the place of what it is underneath.
std::size_t rename_descriptor(int fd, std::string_view target, char* renamed) {
  if (begins_with(target, "/memfd:")) {
    if (!is_dma_buf(describe(fd))) return 0;
    return ::strlen(::strcpy(renamed, "/dmabuf:"));
  }
  DeviceNumber number;
  if (!begins_with(target, "socket:") || !is_machine_socket(fd, &number) || number.major == 0) return 0;
  return ::strlen(::strcpy(renamed, NodePath(number).on_machine()));
}

// The machine's name for a target, into `renamed`; 0 when it has no other.
std::size_t rename_target(const char* path, char* target, char* renamed) {
  if (const char* const name = root::name_on_machine(target)) return ::strlen(::strcpy(renamed, name));
  const int fd = descriptor_named_by(path);
  return fd < 0 ? 0 : rename_descriptor(fd, target, renamed);
}

// Only the kernel's own links, those of /proc, lead into the tree or to what has no name.
bool may_be_in_proc(const char* path) {
  return path[0] != '/' || ::strncmp(path, "/proc/", 6) == 0 || ::strncmp(path, "/dev/fd/", 8) == 0;
}

// Writes as many bytes as it returns and not one more, as the kernel does.
ssize_t read_link(int directory, const char* path, char* target, size_t size) {
  const Place place(directory, path);
  if (!place.in_tree() && root::active() && may_be_in_proc(path)) {
    char whole[kMaxTargetBytes];
    char renamed[kMaxTargetBytes];
    const long got = raw(SYS_readlinkat, directory, path, whole, sizeof whole - 1);
    whole[got < 0 ? 0 : got] = '\0';
    if (std::size_t bytes = rename_target(path, whole, renamed); bytes != 0 && size != 0) {
      if (bytes > size) bytes = size;
      ::memcpy(target, renamed, bytes);
      return static_cast<ssize_t>(bytes);
    }
  }
  return next_of_readlinkat(place.directory(), place.path(), target, size);
}

}  // namespace

UNDERSTUDY_EXPORT ssize_t readlink(const char* path, char* target, size_t size) noexcept {
  return read_link(AT_FDCWD, path, target, size);
}

UNDERSTUDY_EXPORT ssize_t readlinkat(int directory, const char* path, char* target, size_t size) noexcept {
  return read_link(directory, path, target, size);
}

// What programs built with _FORTIFY_SOURCE call: the last size is that of the program's buffer.
UNDERSTUDY_EXPORT ssize_t __readlink_chk(const char* path, char* target, size_t size,
                                         size_t real_size) noexcept {
  if (size > real_size) __chk_fail();
  return read_link(AT_FDCWD, path, target, size);
}

UNDERSTUDY_EXPORT ssize_t __readlinkat_chk(int directory, const char* path, char* target, size_t size,
                                           size_t real_size) noexcept {
  if (size > real_size) __chk_fail();
  return read_link(directory, path, target, size);
}

}  // namespace understudy::shim
