// AddressSpace: memory as an engine sees it: the GPU VM of a process, and its registered or XNACK-reachable
// pages.
//
// Owner: one per hardware queue or command submission. Units: bytes; addresses are device addresses.
// Errors: accesses return false (or nothing) after noting fault(); what lies before the faulting page was
// moved. Thread-safety: none; used by the thread that runs the engine. Mirrors: what the UTCL2/VM hub do for
// SDMA and CP.
//
// All reading and writing of client memory by engines is in this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "sim/core/buffer.h"
#include "sim/core/client.h"
#include "sim/kfd/gpu_vm.h"
#include "sim/kfd/svm.h"

namespace understudy::kfd {

class Gpu;

namespace engine {

class AddressSpace {
 public:
  // `svm` may be null (a render file's VM has none).
  AddressSpace(const Gpu& gpu, std::shared_ptr<GpuVm> vm, std::shared_ptr<Svm> svm, ClientRef client,
               bool xnack_enabled);

  bool read(std::uint64_t address, std::span<std::byte> into, Access access = Access::kRead);
  bool write(std::uint64_t address, std::span<const std::byte> from);
  // Forward copy; the ranges may overlap as memmove allows within one buffer.
  bool copy(std::uint64_t to, std::uint64_t from, std::uint64_t size_bytes);
  // Repeats `pattern` over the range, starting with its first byte.
  bool fill(std::uint64_t address, std::uint64_t size_bytes, std::span<const std::byte> pattern);

  template <typename T>
  std::optional<T> load(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  template <typename T>
  bool store(std::uint64_t address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(address, std::as_bytes(std::span(&value, 1)));
  }
  // Replaces a naturally aligned value by change(value) and returns the old one. Atomic against other engines
  // and, for memory the server has mapped, against the client. The kernel offers nothing atomic on another
  // process's private pages, so there a client's own atomic in the same instant can be lost.
  template <typename T>
  std::optional<T> exchange_with(std::uint64_t address, const std::function<T(T)>& change);

  const std::optional<GpuFault>& fault() const { return fault_; }
  void clear_fault() { fault_.reset(); }

 private:
  // Consecutive bytes of one kind: pages mapped in the server, pages of the client, or PRT.
  struct Piece {
    std::span<std::byte> pinned;
    BufferRef keep_alive;
    ClientRef client;
    std::uint64_t client_address = 0;
    bool read_only = false;  // userptr BO made so
    std::uint64_t size_bytes = 0;
  };
  std::optional<Piece> piece_at(std::uint64_t address, std::uint64_t max_bytes, Access access);
  std::optional<Piece> svm_piece_at(std::uint64_t address, std::uint64_t max_bytes, Access access);
  bool read_piece(const Piece& piece, std::uint64_t address, std::span<std::byte> into);
  bool write_piece(const Piece& piece, std::uint64_t address, std::span<const std::byte> from);
  bool copy_piece(const Piece& to, std::uint64_t to_address, const Piece& from, std::uint64_t from_address,
                  std::uint64_t size_bytes);
  bool fail(std::uint64_t address, Access access, bool present);

  const Gpu& gpu_;
  const std::shared_ptr<GpuVm> vm_;
  const std::shared_ptr<Svm> svm_;
  const ClientRef client_;
  const bool xnack_enabled_;
  std::vector<std::byte> bounce_;
  std::optional<GpuFault> fault_;
};

}  // namespace engine
}  // namespace understudy::kfd
