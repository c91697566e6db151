// stat(2) in all its forms: nodes show as character devices. Mirrors: fs/stat.c.
#include <fcntl.h>
#include <sys/stat.h>

#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/node.h"
#include "sim/door/shim/place.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(stat);
UNDERSTUDY_NEXT(lstat);
UNDERSTUDY_NEXT(fstat);
UNDERSTUDY_NEXT(fstatat);
UNDERSTUDY_NEXT(statx);

int finish(const Place& place, int result, struct stat* info) {
  if (result == 0 && root::active()) show_node(info);
  return place.pass(result);
}

// fs/anon_inodes.c gives files without a node (a sync_file, say) no type.
constexpr mode_t kAnonymousMode = S_IRUSR | S_IWUSR;

// The descriptor may be a socket that stands for a file.
int finish(int fd, int result, struct stat* info) {
  if (result != 0 || !root::active()) return result;
  DeviceNumber number;
  if (S_ISSOCK(info->st_mode) && is_machine_socket(fd, &number)) {
    const NodePath path(number);
    if (number.major == 0 || raw(SYS_newfstatat, AT_FDCWD, path.on_disk(), info, 0) != 0)
      info->st_mode = kAnonymousMode;
  }
  show_node(info);
  return result;
}

int finish(int fd, int result, unsigned mask, struct statx* info) {
  if (result != 0 || !root::active()) return result;
  DeviceNumber number;
  if (S_ISSOCK(info->stx_mode) && is_machine_socket(fd, &number)) {
    const NodePath path(number);
    if (number.major == 0 || raw(SYS_statx, AT_FDCWD, path.on_disk(), 0, mask, info) != 0)
      info->stx_mode = kAnonymousMode;
  }
  show_node(info);
  return result;
}

bool is_about_descriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) && (path == nullptr || path[0] == '\0');
}

}  // namespace

UNDERSTUDY_EXPORT int stat(const char* path, struct stat* info) noexcept {
  const Place place(AT_FDCWD, path);
  if (auto* const next = next_stat.get()) return finish(place, next(place.path(), info), info);
  return finish(place, as_library_result(raw(SYS_newfstatat, AT_FDCWD, place.path(), info, 0)), info);
}

UNDERSTUDY_EXPORT int lstat(const char* path, struct stat* info) noexcept {
  const Place place(AT_FDCWD, path);
  if (auto* const next = next_lstat.get()) return finish(place, next(place.path(), info), info);
  const long result = raw(SYS_newfstatat, AT_FDCWD, place.path(), info, AT_SYMLINK_NOFOLLOW);
  return finish(place, as_library_result(result), info);
}

UNDERSTUDY_EXPORT int fstat(int fd, struct stat* info) noexcept {
  if (auto* const next = next_fstat.get()) return finish(fd, next(fd, info), info);
  return finish(fd, as_library_result(raw(SYS_fstat, fd, info)), info);
}

UNDERSTUDY_EXPORT int fstatat(int directory, const char* path, struct stat* info, int flags) noexcept {
  const Place place(directory, path);
  auto* const next = next_fstatat.get();
  const int result =
      next != nullptr ? next(place.directory(), place.path(), info, flags)
                      : as_library_result(raw(SYS_newfstatat, place.directory(), place.path(), info, flags));
  return is_about_descriptor(path, flags) ? finish(directory, result, info) : finish(place, result, info);
}

UNDERSTUDY_EXPORT int statx(int directory, const char* path, int flags, unsigned mask,
                            struct statx* info) noexcept {
  const Place place(directory, path);
  // What a node is known by.
  if (root::active()) mask |= STATX_TYPE | STATX_MTIME | STATX_INO;
  auto* const next = next_statx.get();
  const int result =
      next != nullptr ? next(place.directory(), place.path(), flags, mask, info)
                      : as_library_result(raw(SYS_statx, place.directory(), place.path(), flags, mask, info));
  if (is_about_descriptor(path, flags)) return finish(directory, result, mask, info);
  if (result == 0 && root::active()) show_node(info);
  return place.pass(result);
}

// What programs built against glibc before 2.33 call; the version is always the same on 64-bit systems.
UNDERSTUDY_EXPORT int __xstat(int, const char* path, struct stat* info) noexcept {
  return stat(path, info);
}
UNDERSTUDY_EXPORT int __lxstat(int, const char* path, struct stat* info) noexcept {
  return lstat(path, info);
}
UNDERSTUDY_EXPORT int __fxstat(int, int fd, struct stat* info) noexcept {
  return fstat(fd, info);
}
UNDERSTUDY_EXPORT int __fxstatat(int, int directory, const char* path, struct stat* info,
                                 int flags) noexcept {
  return fstatat(directory, path, info, flags);
}

// struct stat64 is struct stat under another name.
static_assert(sizeof(struct stat64) == sizeof(struct stat));
UNDERSTUDY_EXPORT int stat64(const char*, struct stat64*) noexcept UNDERSTUDY_ALIAS(stat);
UNDERSTUDY_EXPORT int lstat64(const char*, struct stat64*) noexcept UNDERSTUDY_ALIAS(lstat);
UNDERSTUDY_EXPORT int fstat64(int, struct stat64*) noexcept UNDERSTUDY_ALIAS(fstat);
UNDERSTUDY_EXPORT int fstatat64(int, const char*, struct stat64*, int) noexcept UNDERSTUDY_ALIAS(fstatat);
UNDERSTUDY_EXPORT int __xstat64(int, const char*, struct stat64*) noexcept UNDERSTUDY_ALIAS(__xstat);
UNDERSTUDY_EXPORT int __lxstat64(int, const char*, struct stat64*) noexcept UNDERSTUDY_ALIAS(__lxstat);
UNDERSTUDY_EXPORT int __fxstat64(int, int, struct stat64*) noexcept UNDERSTUDY_ALIAS(__fxstat);
UNDERSTUDY_EXPORT int __fxstatat64(int, int, const char*, struct stat64*, int) noexcept
    UNDERSTUDY_ALIAS(__fxstatat);

}  // namespace understudy::shim
