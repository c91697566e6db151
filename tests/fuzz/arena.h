// Arena: the address space of the fuzzed client: scratch memory and a few slots where files get mapped. What
// lies outside is EFAULT, so that no copy ever reaches the fuzzer's own memory.
//
// Owner: ArenaMemory is the client's ClientMemory and outlives nothing but the client. Units: bytes. Errors:
// EFAULT outside, and where a mapping has no page. Thread-safety: as ProcessMemory.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/core/client.h"
#include "sim/core/process_memory.h"
#include "sim/core/vma.h"

namespace understudy::fuzz {

class Arena {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kScratchBytes = 64 * kPage;
  static constexpr std::uint64_t kSlotBytes = 16 * kPage;
  static constexpr std::size_t kSlots = 8;
  static constexpr std::uint64_t kBytes = kScratchBytes + kSlots * kSlotBytes;

  Arena();
  ~Arena();
  Arena(const Arena&) = delete;

  std::uint64_t base() const { return base_; }
  std::uint64_t scratch(std::uint64_t offset) const { return base_ + offset % kScratchBytes; }
  std::uint64_t slot(std::size_t index) const { return base_ + kScratchBytes + index * kSlotBytes; }
  bool contains(std::uint64_t address) const { return address - base_ < kBytes; }

  // Maps at most a slot's worth of `fd` there. Whether it could.
  bool map(std::size_t slot, int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes, int protection);
  void unmap(std::size_t slot);

  std::unique_ptr<ClientMemory> memory() const;

 private:
  std::uint64_t base_ = 0;
};

}  // namespace understudy::fuzz
