#include "sim/core/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace understudy {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<UniqueFd> UniqueFd::dup() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return last_errno();
  return UniqueFd(copy);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (address_) ::munmap(address_, size_bytes_);
    address_ = std::exchange(other.address_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (address_) ::munmap(address_, size_bytes_);
}

Result<Mapping> Mapping::of_fd(int fd, std::size_t size_bytes, off_t offset, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = ::mmap(nullptr, size_bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, offset);
  if (address == MAP_FAILED) return last_errno();
  return Mapping(address, size_bytes);
}

Result<UniqueFd> make_memfd(const char* name, std::uint64_t size_bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return last_errno();
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) return last_errno();
  // Clients get descriptors of it: none may cut off pages that the server has mapped.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return last_errno();
  return fd;
}

Result<UniqueFd> reopen(int fd, int open_flags) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  UniqueFd description(::open(path, open_flags | O_CLOEXEC));
  if (!description) return last_errno();
  return description;
}

}  // namespace understudy
