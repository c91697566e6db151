// UniqueFd owns one file descriptor. Move-only; the destructor closes. close(2) is not repeated on EINTR: the
// kernel has already dropped the descriptor. Every descriptor made here is close-on-exec.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/expected.h"

namespace hsa_rt {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

  static Result<UniqueFd> open(const char* path, int flags) {
    const int fd = ::open(path, flags | O_CLOEXEC);
    if (fd < 0) return Errno{errno};
    return UniqueFd(fd);
  }

  Result<UniqueFd> dup() const {
    const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return Errno{errno};
    return UniqueFd(fd);
  }

 private:
  int fd_ = -1;
};

}  // namespace hsa_rt
