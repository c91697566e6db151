// Directory streams and tree walks: libc's own walk without asking anybody, so they are started at the right
// place, and what they name is named as on the machine.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include <string_view>

#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/node.h"
#include "sim/door/shim/owned_paths.h"
#include "sim/door/shim/place.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(opendir);
UNDERSTUDY_NEXT(readdir);
UNDERSTUDY_NEXT(scandir);
UNDERSTUDY_NEXT(scandirat);
UNDERSTUDY_NEXT(ftw);
UNDERSTUDY_NEXT(nftw);
UNDERSTUDY_NEXT(glob);

using Visitor = int (*)(const char*, const struct stat*, int);
using NestedVisitor = int (*)(const char*, const struct stat*, int, FTW*);

// ftw and nftw pass nothing along to their visitor, so who is meant stands here while one runs.
thread_local Visitor visitor = nullptr;
thread_local NestedVisitor nested_visitor = nullptr;

// Lends a thread's variable for one walk; walks nest.
template <typename T>
class Lent {
 public:
  Lent(T& variable, T value) : variable_(variable), before_(variable) { variable = value; }
  ~Lent() { variable_ = before_; }
  Lent(const Lent&) = delete;

 private:
  T& variable_;
  const T before_;
};

int visit(const char* path, const struct stat* info, int type) {
  struct stat shown = *info;
  show_node(&shown);
  const char* const name = root::name_on_machine(path);
  return visitor(name != nullptr ? name : path, &shown, type);
}

int visit_nested(const char* path, const struct stat* info, int type, FTW* where) {
  struct stat shown = *info;
  show_node(&shown);
  const char* const name = root::name_on_machine(path);
  FTW renamed = *where;
  if (name != nullptr) renamed.base -= static_cast<int>(name - path);
  return nested_visitor(name != nullptr ? name : path, &shown, type, &renamed);
}

bool may_name_node(const char* name) {
  for (const std::string_view beginning : {"kfd", "card", "renderD", "accel"}) {
    if (::strncmp(name, beginning.data(), beginning.size()) == 0) return true;
  }
  return false;
}

// With the socket door, placeholders are regular files to the kernel, which says so in listings, too.
void show_type(DIR* stream, dirent* entry) {
  struct stat info;
  DeviceNumber number;
  const long result = raw(SYS_newfstatat, ::dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW);
  if (result == 0 && is_node(info, &number)) entry->d_type = DT_CHR;
}

// glob(3) can be given the functions it walks with; ours then find what its own would not.
bool may_match_owned(const char* pattern) {
  if (!root::active()) return false;
  const std::string_view first(pattern + (pattern[0] == '/' ? 1 : 0));
  return occurs_in_owned_paths({first.data(), ::strcspn(first.data(), "/*?[\\")});
}

}  // namespace

UNDERSTUDY_EXPORT DIR* opendir(const char* path) {
  const Place place(AT_FDCWD, path);
  if (auto* const next = next_opendir.get()) return place.pass(next(place.path()));
  errno = ENOSYS;
  return nullptr;
}

UNDERSTUDY_EXPORT dirent* readdir(DIR* stream) {
  auto* const next = next_readdir.get();
  dirent* const entry = next != nullptr ? next(stream) : nullptr;
  if (entry != nullptr && entry->d_type == DT_REG && root::active() && may_name_node(entry->d_name))
    show_type(stream, entry);
  return entry;
}

UNDERSTUDY_EXPORT int scandir(const char* path, dirent*** entries, int (*wanted)(const dirent*),
                              int (*compare)(const dirent**, const dirent**)) {
  const Place place(AT_FDCWD, path);
  auto* const next = next_scandir.get();
  return next != nullptr ? place.pass(next(place.path(), entries, wanted, compare)) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT int scandirat(int directory, const char* path, dirent*** entries,
                                int (*wanted)(const dirent*),
                                int (*compare)(const dirent**, const dirent**)) {
  const Place place(directory, path);
  auto* const next = next_scandirat.get();
  return next != nullptr ? next(place.directory(), place.path(), entries, wanted, compare) : fail(ENOSYS);
}

UNDERSTUDY_EXPORT int ftw(const char* path, Visitor function, int max_fds) {
  auto* const next = next_ftw.get();
  if (next == nullptr) return fail(ENOSYS);
  const Place place(AT_FDCWD, path);
  if (!place.in_tree()) return next(place.path(), function, max_fds);
  const Lent lent(visitor, function);
  return next(place.path(), &visit, max_fds);
}

UNDERSTUDY_EXPORT int nftw(const char* path, NestedVisitor function, int max_fds, int flags) {
  auto* const next = next_nftw.get();
  if (next == nullptr) return fail(ENOSYS);
  const Place place(AT_FDCWD, path);
  if (!place.in_tree()) return next(place.path(), function, max_fds, flags);
  const Lent lent(nested_visitor, function);
  return next(place.path(), &visit_nested, max_fds, flags);
}

UNDERSTUDY_EXPORT int glob(const char* pattern, int flags, int (*on_error)(const char*, int),
                           glob_t* found) noexcept {
  auto* const next = next_glob.get();
  if (next == nullptr) return GLOB_ABORTED;
  if ((flags & GLOB_ALTDIRFUNC) || !may_match_owned(pattern)) return next(pattern, flags, on_error, found);
  found->gl_opendir = [](const char* path) { return static_cast<void*>(opendir(path)); };
  found->gl_readdir = [](void* stream) { return readdir(static_cast<DIR*>(stream)); };
  found->gl_closedir = [](void* stream) { ::closedir(static_cast<DIR*>(stream)); };
  found->gl_stat = &stat;
  found->gl_lstat = &lstat;
  return next(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
}

// struct dirent64 is struct dirent under another name, and so on.
static_assert(sizeof(dirent64) == sizeof(dirent) && sizeof(glob64_t) == sizeof(glob_t));
UNDERSTUDY_EXPORT dirent64* readdir64(DIR*) UNDERSTUDY_ALIAS(readdir);
UNDERSTUDY_EXPORT int scandir64(const char*, dirent64***, int (*)(const dirent64*),
                                int (*)(const dirent64**, const dirent64**)) UNDERSTUDY_ALIAS(scandir);
UNDERSTUDY_EXPORT int scandirat64(int, const char*, dirent64***, int (*)(const dirent64*),
                                  int (*)(const dirent64**, const dirent64**)) UNDERSTUDY_ALIAS(scandirat);
UNDERSTUDY_EXPORT int ftw64(const char*, int (*)(const char*, const struct stat64*, int), int)
    UNDERSTUDY_ALIAS(ftw);
UNDERSTUDY_EXPORT int nftw64(const char*, int (*)(const char*, const struct stat64*, int, FTW*), int, int)
    UNDERSTUDY_ALIAS(nftw);
UNDERSTUDY_EXPORT int glob64(const char*, int, int (*)(const char*, int), glob64_t*) noexcept
    UNDERSTUDY_ALIAS(glob);

}  // namespace understudy::shim
