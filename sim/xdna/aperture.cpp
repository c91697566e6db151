#include "sim/xdna/aperture.h"

namespace understudy::xdna {
namespace {

std::uint64_t align_up(std::uint64_t address) {
  return (address + Aperture::kAlignmentBytes - 1) & ~(Aperture::kAlignmentBytes - 1);
}

}  // namespace

Result<std::uint64_t> Aperture::allocate(std::uint64_t size_bytes) {
  auto best = free_.end();
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const std::uint64_t padding = align_up(hole->first) - hole->first;
    if (hole->second < padding || hole->second - padding < size_bytes) continue;
    if (best == free_.end() || hole->second < best->second) best = hole;
  }
  if (best == free_.end()) return Errno(ENOSPC);
  const auto [start, size] = *best;
  const std::uint64_t address = align_up(start);
  free_.erase(best);
  if (address > start) free_[start] = address - start;
  const std::uint64_t end = address + size_bytes;
  if (end < start + size) free_[end] = start + size - end;
  return address;
}

void Aperture::release(std::uint64_t address, std::uint64_t size_bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + size_bytes) {
    size_bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += size_bytes;
      return;
    }
  }
  free_[address] = size_bytes;
}

}  // namespace understudy::xdna
