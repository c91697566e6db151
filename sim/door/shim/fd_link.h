// The names in /proc (and /dev/fd) of this process's own descriptors.
#pragma once

#include <stdio.h>

namespace understudy::shim {

class FdLink {
 public:
  explicit FdLink(int fd) { ::snprintf(path_, sizeof path_, "/proc/self/fd/%d", fd); }
  const char* path() const { return path_; }

 private:
  char path_[32];
};

// The descriptor that a path is the name of, or -1.
int descriptor_named_by(const char* path);

}  // namespace understudy::shim
