#include <sys/uio.h>

#include "sim/core/client.h"
#include "sim/core/process_memory.h"

namespace understudy {

Result<void> ClientMemory::read(std::uint64_t address, std::span<std::byte> into) {
  if (into.empty()) return {};
  if (TRY(read_some(address, into)) != into.size()) return Errno(EFAULT);
  return {};
}

Result<void> ClientMemory::write(std::uint64_t address, std::span<const std::byte> from) {
  if (from.empty()) return {};
  if (TRY(write_some(address, from)) != from.size()) return Errno(EFAULT);
  return {};
}

namespace {

// Addresses the caller's kernel would refuse in access_ok(): beyond the user half.
constexpr std::uint64_t kUserAddressLimit = std::uint64_t{1} << 47;

Result<std::size_t> moved_or_fault(ssize_t moved) {
  if (moved >= 0) return static_cast<std::size_t>(moved);
  if (errno == EFAULT || errno == EINVAL || errno == ENOMEM) return std::size_t{0};
  if (errno == ESRCH) return Errno(EFAULT);
  return last_errno();
}

}  // namespace

Result<std::size_t> ProcessMemory::read_some(std::uint64_t address, std::span<std::byte> into) {
  if (address >= kUserAddressLimit) return std::size_t{0};
  const iovec local{into.data(), into.size()};
  const iovec remote{reinterpret_cast<void*>(address), into.size()};
  return moved_or_fault(::process_vm_readv(pid_, &local, 1, &remote, 1, 0));
}

Result<std::size_t> ProcessMemory::write_some(std::uint64_t address, std::span<const std::byte> from) {
  if (address >= kUserAddressLimit) return std::size_t{0};
  const iovec local{const_cast<std::byte*>(from.data()), from.size()};
  const iovec remote{reinterpret_cast<void*>(address), from.size()};
  return moved_or_fault(::process_vm_writev(pid_, &local, 1, &remote, 1, 0));
}

}  // namespace understudy
