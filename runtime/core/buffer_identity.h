// Which buffer a dma-buf descriptor stands for. The kernel gives each dma-buf an inode of its own, so
// descriptors of the same buffer agree on (device, inode) in every process, and the pair is not used again
// while the buffer lives.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <compare>
#include <cstdint>

#include "runtime/base/expected.h"

namespace hsa_rt {

struct BufferIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const BufferIdentity&, const BufferIdentity&) = default;

  static Result<BufferIdentity> of(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return Errno{errno};
    return BufferIdentity{status.st_dev, status.st_ino};
  }
};

}  // namespace hsa_rt
