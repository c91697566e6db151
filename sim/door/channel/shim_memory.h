// ShimMemory: a client's memory through process_vm_readv/writev, or, where the kernel denies that (Yama,
// seccomp, a process that is not dumpable), through the shim of a thread that waits for a call.
//
// Owner: Client. Units: bytes. Errors: EFAULT when no thread of the client waits; a short count stands for a
// fault. Thread-safety: all methods from any thread. Mirrors: copy_from_user/copy_to_user.
#pragma once

#include <atomic>
#include <memory>

#include "sim/core/process_memory.h"
#include "sim/door/channel/connection.h"

namespace understudy::door {

class ClientConnections;

class ShimMemory : public ClientMemory {
 public:
  ShimMemory(pid_t pid, std::shared_ptr<ClientConnections> connections)
      : direct_(pid), connections_(std::move(connections)) {}

  Result<std::size_t> read_some(std::uint64_t address, std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::uint64_t address, std::span<const std::byte> from) override;

 private:
  Result<std::size_t> move_chunk(MessageKind kind, std::uint64_t address, std::span<std::byte> into,
                                 std::span<const std::byte> from);

  ProcessMemory direct_;
  std::atomic<bool> denied_{false};
  const std::shared_ptr<ClientConnections> connections_;
};

}  // namespace understudy::door
