// FdLink: the name in /proc of one of our own descriptors.
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

}  // namespace understudy::shim
