// VaArena: which addresses of a range are taken.
//
// Owner: whoever hands the addresses out. Units: bytes. Errors: nothing when there is no room. Thread-safety:
// none; the owner's. Mirrors: virglrenderer src/rocm: hsakmt_vm (first fit over holes).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace understudy::virtio_gpu {

class VaArena {
 public:
  VaArena(std::uint64_t base, std::uint64_t size_bytes) : base_(base), size_bytes_(size_bytes) {}

  std::uint64_t base() const { return base_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  bool contains(std::uint64_t address) const { return address - base_ < size_bytes_; }
  bool empty() const { return taken_.empty(); }

  // Whole pages at a multiple of `alignment_bytes` (a power of two).
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, std::uint64_t alignment_bytes) {
    constexpr std::uint64_t kPageBytes = 4096;
    if (size_bytes == 0 || size_bytes % kPageBytes != 0 || size_bytes > size_bytes_) return std::nullopt;
    const auto align = [&](std::uint64_t offset) {
      return (base_ + offset + alignment_bytes - 1) / alignment_bytes * alignment_bytes - base_;
    };
    std::uint64_t offset = align(0);
    for (const auto& [start, length] : taken_) {
      if (start >= offset && start - offset >= size_bytes) break;
      offset = align(start + length);
    }
    if (offset > size_bytes_ || size_bytes_ - offset < size_bytes) return std::nullopt;
    taken_[offset] = size_bytes;
    return base_ + offset;
  }
  // False when nothing starts there.
  bool free(std::uint64_t address) { return taken_.erase(address - base_) != 0; }

 private:
  const std::uint64_t base_;
  const std::uint64_t size_bytes_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // offset -> length
};

}  // namespace understudy::virtio_gpu
