// HostAddressSpace: the address space of the process that runs the guest, as data: what the host's KFD finds
// when it looks at that process's memory.
//
// Owner: HostProcess's client. Units: bytes; addresses of the simulated process, which are nothing in this
// server's own address space, so that no address a guest makes up reaches the server's memory. Errors: EFAULT
// where nothing is. Thread-safety: locks itself. Mirrors: the virtual machine monitor's mm_struct.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "sim/core/client.h"
#include "sim/core/vma.h"
#include "sim/virtio_gpu/device/renderer.h"

namespace understudy::virtio_gpu {

class HostAddressSpace : public ClientMemory, public VmaSource {
 public:
  // Where arguments of calls are staged; no view lies there.
  static constexpr std::uint64_t kFirstStagingAddress = 0x7f00'0000'0000;

  // ClientMemory
  Result<std::size_t> read_some(std::uint64_t address, std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::uint64_t address, std::span<const std::byte> from) override;
  Result<Vma> vma_at(std::uint64_t address) override;

  // A contiguous view of guest memory. EEXIST when it would overlap another.
  Result<void> map_view(std::uint64_t address, std::uint64_t size_bytes, Backing backing, bool read_only);
  void unmap_view(std::uint64_t address);
  // Is any byte of the range in a read-only view?
  bool is_read_only(std::uint64_t address, std::uint64_t size_bytes) const;

  // Lends bytes of the server at an address, for the duration of a call.
  class Staged {
   public:
    Staged(HostAddressSpace& space, std::span<std::byte> bytes);
    ~Staged();
    Staged(const Staged&) = delete;
    std::uint64_t address() const { return address_; }

   private:
    HostAddressSpace& space_;
    std::uint64_t address_ = 0;
  };

 private:
  struct View {
    std::uint64_t size_bytes = 0;
    Backing backing;
    bool read_only = false;
  };
  // What lies at `address`: copies it out of the lock.
  struct Found {
    std::span<std::byte> staged;  // either this
    Backing backing;              // or this, at offset_bytes
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
    bool read_only = false;
  };
  Found find(std::uint64_t address) const;
  template <typename Move>
  Result<std::size_t> move_bytes(std::uint64_t address, std::size_t size_bytes, Move move);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, View> views_;                        // guarded by mutex_
  std::map<std::uint64_t, std::span<std::byte>> staged_;       // guarded by mutex_
  std::uint64_t next_staging_address_ = kFirstStagingAddress;  // guarded by mutex_
};

}  // namespace understudy::virtio_gpu
