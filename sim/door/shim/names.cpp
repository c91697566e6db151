// What takes or gives path names and is neither open nor stat: names in the tree go in and the machine's
// names come out.
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/place.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(access);
UNDERSTUDY_NEXT(euidaccess);
UNDERSTUDY_NEXT(faccessat);
UNDERSTUDY_NEXT(chdir);
UNDERSTUDY_NEXT(getcwd);
UNDERSTUDY_NEXT(get_current_dir_name);
UNDERSTUDY_NEXT(realpath);
UNDERSTUDY_NEXT(getxattr);
UNDERSTUDY_NEXT(lgetxattr);
UNDERSTUDY_NEXT(listxattr);
UNDERSTUDY_NEXT(llistxattr);

// Longer names are not in the tree.
constexpr unsigned kMaxNameBytes = 1024;

char* fail_to_name(int error) {
  errno = error;
  return nullptr;
}

// A name that libc has found, as the machine calls it.
char* rename_found(char* path) {
  if (path == nullptr || !root::active()) return path;
  if (const char* const name = root::name_on_machine(path)) ::memmove(path, name, ::strlen(name) + 1);
  return path;
}

// Where the working directory lies in the tree, what getcwd(3) should say; else null.
const char* working_directory_in_tree(char* buffer, std::size_t size) {
  if (!root::active() || raw(SYS_getcwd, buffer, size) <= 0) return nullptr;
  return root::name_on_machine(buffer);
}

}  // namespace

UNDERSTUDY_EXPORT int access(const char* path, int mode) noexcept {
  const Place place(AT_FDCWD, path);
  if (auto* const next = next_access.get()) return place.pass(next(place.path(), mode));
  return as_library_result(raw(SYS_faccessat, AT_FDCWD, place.path(), mode));
}

UNDERSTUDY_EXPORT int euidaccess(const char* path, int mode) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_euidaccess.get();
  return next != nullptr ? place.pass(next(place.path(), mode)) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  const Place place(directory, path);
  auto* const next = next_faccessat.get();
  return next != nullptr ? place.pass(next(place.directory(), place.path(), mode, flags)) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT int chdir(const char* path) noexcept {
  const Place place(AT_FDCWD, path);
  if (auto* const next = next_chdir.get()) return place.pass(next(place.path()));
  return as_library_result(raw(SYS_chdir, place.path()));
}

UNDERSTUDY_EXPORT char* getcwd(char* buffer, size_t size) noexcept {
  char found[kMaxNameBytes];
  const char* const name = working_directory_in_tree(found, sizeof found);
  if (name == nullptr) {
    auto* const next = next_getcwd.get();
    return next != nullptr ? next(buffer, size) : fail_to_name(ENOSYS);
  }
  const std::size_t needed = ::strlen(name) + 1;
  if (buffer == nullptr) {
    if (size == 0) return ::strdup(name);
    if (size < needed) return fail_to_name(ERANGE);
    buffer = static_cast<char*>(::malloc(size));
    if (buffer == nullptr) return nullptr;
  }
  if (size == 0) return fail_to_name(EINVAL);
  if (size < needed) return fail_to_name(ERANGE);
  return static_cast<char*>(::memcpy(buffer, name, needed));
}

UNDERSTUDY_EXPORT char* get_current_dir_name() noexcept {
  auto* const next = next_get_current_dir_name.get();
  return next != nullptr ? rename_found(next()) : fail_to_name(ENOSYS);
}

UNDERSTUDY_EXPORT char* realpath(const char* path, char* resolved) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_realpath.get();
  return next != nullptr ? rename_found(place.pass(next(place.path(), resolved))) : fail_to_name(ENOSYS);
}

UNDERSTUDY_EXPORT char* canonicalize_file_name(const char* path) noexcept {
  return realpath(path, nullptr);
}

UNDERSTUDY_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_getxattr.get();
  return next != nullptr ? next(place.path(), name, value, size) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_lgetxattr.get();
  return next != nullptr ? next(place.path(), name, value, size) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT ssize_t listxattr(const char* path, char* list, size_t size) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_listxattr.get();
  return next != nullptr ? next(place.path(), list, size) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) noexcept {
  const Place place(AT_FDCWD, path);
  auto* const next = next_llistxattr.get();
  return next != nullptr ? next(place.path(), list, size) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT int eaccess(const char*, int) noexcept UNDERSTUDY_ALIAS(euidaccess);

// What programs built with _FORTIFY_SOURCE call: the last size is that of the program's buffer.
UNDERSTUDY_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t size) noexcept {
  if (size < PATH_MAX) __chk_fail();
  return realpath(path, resolved);
}

UNDERSTUDY_EXPORT char* __getcwd_chk(char* buffer, size_t size, size_t real_size) noexcept {
  if (size > real_size) __chk_fail();
  return getcwd(buffer, size);
}

}  // namespace understudy::shim
