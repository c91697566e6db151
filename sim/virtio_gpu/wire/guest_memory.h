// GuestMemory: the guest's physical address space: what lies at which guest-physical address, as the device
// sees it.
//
// Owner: the virtual machine (the guest, or a test). Pages are placed by the guest driver and looked up
// by the device; a Placement takes its pages out again when it goes, while pieces that the device has looked
// up keep the pages themselves alive (a device that was not told of the removal goes on reading them, as the
// real one does). Units: bytes; addresses are guest-physical. Errors: EFAULT where nothing lies, ENOMEM when
// the machine's memory is used up. Thread-safety: GuestMemory locks itself; GuestPages implementations say.
// Mirrors: the memory regions behind QEMU's dma_memory_map, and the page allocator of the guest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

#include "sim/core/result.h"

namespace understudy::virtio_gpu {

inline constexpr std::uint64_t kGuestPageBytes = 4096;

// Bytes that can be placed in guest memory: the driver's own, a buffer's, a user process's.
class GuestPages {
 public:
  virtual ~GuestPages() = default;
  virtual std::uint64_t size_bytes() const = 0;
  // Move bytes at `offset_bytes`; the range lies inside. Return how many were moved: less than asked when
  // pages have gone or forbid it (user memory).
  virtual std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> into) = 0;
  virtual std::size_t write(std::uint64_t offset_bytes, std::span<const std::byte> from) = 0;
  // The bytes themselves where the server has them mapped; empty otherwise.
  virtual std::span<std::byte> direct() { return {}; }
};

using GuestPagesRef = std::shared_ptr<GuestPages>;

// Kernel memory of the guest: rings, commands, entry lists. No locking: a command belongs to one side at a
// time, and rings are accessed with atomics.
class KernelPages : public GuestPages {
 public:
  explicit KernelPages(std::uint64_t size_bytes);
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> into) override;
  std::size_t write(std::uint64_t offset_bytes, std::span<const std::byte> from) override;
  std::span<std::byte> direct() override { return {bytes_.get(), size_bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  const std::uint64_t size_bytes_;
  std::unique_ptr<std::byte, Free> bytes_;  // page aligned
};

// A physically contiguous stretch.
struct MemoryRun {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
  bool operator==(const MemoryRun&) const = default;
};

// How the guest's page allocator happened to lay pages out: runs of `minimum_pages` to `maximum_pages`, drawn
// from `seed`, never adjacent to each other.
struct Contiguity {
  std::uint64_t minimum_pages = 1;
  std::uint64_t maximum_pages = 8;
  std::uint64_t seed = 0;
};

// Part of pages, as the device holds on to it.
struct MemoryPiece {
  GuestPagesRef pages;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

class GuestMemory;

// Pages at their place; takes them out when destroyed.
class Placement {
 public:
  Placement() = default;
  Placement(Placement&& other) noexcept { swap(other); }
  Placement& operator=(Placement&& other) noexcept {
    Placement taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Placement();

  explicit operator bool() const { return memory_ != nullptr; }
  // In the order of the pages; lengths are page multiples.
  const std::vector<MemoryRun>& runs() const { return *runs_; }
  std::uint64_t address() const { return runs_->front().address; }

 private:
  friend class GuestMemory;
  void swap(Placement& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(window_, other.window_);
    runs_.swap(other.runs_);
  }
  GuestMemory* memory_ = nullptr;
  std::uint64_t window_ = 0;
  std::shared_ptr<const std::vector<MemoryRun>> runs_;
};

class GuestMemory {
 public:
  // Addresses are handed out upwards from the first and not used again, so that a device that keeps a stale
  // one is told EFAULT instead of finding somebody else's pages.
  static constexpr std::uint64_t kFirstAddress = 0x1'0000'0000;
  static constexpr std::uint64_t kEndAddress = std::uint64_t{1} << 62;

  explicit GuestMemory(std::uint64_t ram_bytes) : ram_bytes_(ram_bytes) {}
  GuestMemory(const GuestMemory&) = delete;

  std::uint64_t ram_bytes() const { return ram_bytes_; }

  // Allocates room for the pages; counted against ram_bytes (ENOMEM). Their size is a page multiple, not 0.
  Result<Placement> place(GuestPagesRef pages, const Contiguity& contiguity);
  // One run, as kmalloc gives: the driver's own memory, not counted. ENOMEM only when it is more than ram_bytes.
  Result<Placement> place_contiguous(GuestPagesRef pages);
  // Pages that exist already, in a process: pinned, not allocated. ENOMEM when they are more than ram_bytes.
  Result<Placement> place_pinned(GuestPagesRef pages, const Contiguity& contiguity);

  // Appends what lies at the range, in order; contiguous pages give one piece. EFAULT if any byte is nowhere.
  Result<void> look_up(std::uint64_t address, std::uint64_t length_bytes,
                       std::vector<MemoryPiece>& into) const;
  // EFAULT unless the whole range is memory that the server has mapped in one stretch; `keep` then holds it.
  Result<std::span<std::byte>> direct(std::uint64_t address, std::uint64_t length_bytes,
                                      GuestPagesRef& keep) const;

  std::size_t placement_count() const;

 private:
  friend class Placement;
  struct Window {
    GuestPagesRef pages;
    std::shared_ptr<const std::vector<MemoryRun>> runs;
    std::vector<std::uint64_t> run_offsets;  // of each run in the pages
    std::uint64_t allocated_bytes = 0;
  };
  Result<Placement> place_runs(GuestPagesRef pages, std::span<const std::uint64_t> run_lengths,
                               bool allocated);
  void remove(std::uint64_t window);
  // Requires mutex_. The piece at `address`, at most `length_bytes` long.
  Result<MemoryPiece> piece_at(std::uint64_t address, std::uint64_t length_bytes) const;

  const std::uint64_t ram_bytes_;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, Window> windows_;  // by first address
  std::uint64_t next_address_ = kFirstAddress;
  std::uint64_t allocated_bytes_ = 0;
};

// Bytes over a list of pieces, as iov_to_buf and iov_from_buf see them: copies stop at the end of the list
// and at the first inaccessible byte, and return what was moved.
std::uint64_t total_bytes(std::span<const MemoryPiece> pieces);
std::size_t copy_from(std::span<const MemoryPiece> pieces, std::uint64_t offset_bytes,
                      std::span<std::byte> into);
std::size_t copy_to(std::span<const MemoryPiece> pieces, std::uint64_t offset_bytes,
                    std::span<const std::byte> from);

}  // namespace understudy::virtio_gpu
