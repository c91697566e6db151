// Place: where a path that the program names really leads: into the machine's tree, or nowhere special.
//
// Owner: the frame of the hooked function; it borrows the program's string. Units: none. Errors: a path that
// cannot be told (too long, unreadable) is left to the kernel. Thread-safety: one frame's. Mirrors: the part
// of fs/namei.c that decides on a mount.
#pragma once

#include <errno.h>

#include <string_view>

#include "sim/door/shim/root.h"

namespace understudy::shim {

class Place {
 public:
  Place(int directory, const char* path);
  Place(const Place&) = delete;

  bool in_tree() const { return in_tree_; }
  // Below the machine's /dev.
  bool is_device() const;
  // To be given to the real function in place of what the program gave.
  int directory() const { return directory_; }
  const char* path() const { return path_; }

  // Passes the real function's result on; a dead mount's errno becomes that of a device whose driver is gone.
  template <typename T>
  T pass(T result) const {
    if (in_tree_ && (errno == ENOTCONN || errno == ECONNABORTED) && is_failure(result)) errno = ENODEV;
    return result;
  }

 private:
  // Longer ones are not in anybody's sysfs.
  static constexpr unsigned kMaxNameBytes = 896;

  static bool is_failure(long result) { return result < 0; }
  static bool is_failure(const void* result) { return result == nullptr; }
  std::string_view name() const { return {name_, length_}; }
  bool is_owned();
  bool append(const char* path, unsigned links_left);
  bool leave(unsigned links_left);
  bool begin_at(int directory);

  int directory_;
  const char* path_;
  bool in_tree_ = false;
  // The way has led through the tree, perhaps out of it again: the kernel, which sees only the host's
  // directories, could not follow.
  bool was_in_tree_ = false;
  unsigned length_ = 0;
  // The tree's path, and right after it the plain absolute name on the machine.
  char text_[kMaxTreeBytes + kMaxNameBytes];
  char* name_ = text_;
};

}  // namespace understudy::shim
