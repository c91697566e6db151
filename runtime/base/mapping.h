// Mapping owns a shared file mapping at an address of the kernel's choosing.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/base/expected.h"

namespace hsa_rt {

class Mapping {
 public:
  static Result<Mapping> map_file(size_t size_bytes, int protection, int fd, uint64_t file_offset) {
    void* at = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, static_cast<off_t>(file_offset));
    if (at == MAP_FAILED) return Errno{errno};
    return Mapping(at, size_bytes);
  }

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~Mapping() {
    if (address_ != nullptr) ::munmap(address_, size_bytes_);
  }

  explicit operator bool() const { return address_ != nullptr; }
  void* address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  Mapping(void* address, size_t size_bytes) : address_(address), size_bytes_(size_bytes) {}
  void* address_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace hsa_rt
