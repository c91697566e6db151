// ProcessMemory: a client's memory through process_vm_readv/writev.
//
// Owner: Client. Units: bytes. Errors: EPERM when ptrace access is denied; a short count stands for a fault.
// Thread-safety: stateless. Mirrors: copy_from_user/copy_to_user.
//
// A pid can be reused once its process is reaped; Client keeps a pidfd and drivers stop using a client that
// is gone(), so the window is that of a process dying in the middle of its own call.
#pragma once

#include "sim/core/client.h"

namespace understudy {

class ProcessMemory : public ClientMemory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}
  Result<std::size_t> read_some(std::uint64_t address, std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::uint64_t address, std::span<const std::byte> from) override;

 private:
  const pid_t pid_;
};

}  // namespace understudy
