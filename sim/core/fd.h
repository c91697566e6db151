// File descriptors and mappings with an owner.
//
// UniqueFd owns a descriptor (closes it once; close is not repeated on EINTR). Mapping owns mapped bytes;
// what is only reserved address space is another type, ReservedRange. Parameters: UniqueFd takes, int
// borrows. Errors: factories return the libc errno. Thread-safety: none; one owner at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sim/core/result.h"

namespace understudy {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);
  // Another descriptor of the same open file description, close-on-exec.
  Result<UniqueFd> dup() const;

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Shared, read-write (or read-only) mapping of `fd`.
  static Result<Mapping> of_fd(int fd, std::size_t size_bytes, off_t offset = 0, bool writable = true);

  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::size_t size_bytes() const { return size_bytes_; }
  std::span<std::byte> bytes() const { return {data(), size_bytes_}; }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  Mapping(void* address, std::size_t size_bytes) : address_(address), size_bytes_(size_bytes) {}
  void* address_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// An anonymous, sealable memory file of `size_bytes` (sparse: costs nothing until touched).
Result<UniqueFd> make_memfd(const char* name, std::uint64_t size_bytes);

// A new open file description of the file behind `fd` (not a dup): has its own locks, offset and mode.
Result<UniqueFd> reopen(int fd, int open_flags);

}  // namespace understudy
