// Arithmetic on addresses and sizes that came from a caller: nothing here wraps silently.
#pragma once

#include <cstdint>

namespace hsa_rt {

constexpr uint64_t kPageBytes = 4096;

constexpr bool is_page_multiple(uint64_t value) {
  return value % kPageBytes == 0;
}
constexpr bool is_power_of_two(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}
constexpr uint64_t page_floor(uint64_t value) {
  return value & ~(kPageBytes - 1);
}

// Rounds up to `alignment` (a power of two); false when the result does not fit.
constexpr bool align_up(uint64_t value, uint64_t alignment, uint64_t& out) {
  return !__builtin_add_overflow(value, alignment - 1, &out) && ((out &= ~(alignment - 1)), true);
}

// [base, base + size), never empty, never wrapping.
struct AddressSpan {
  uint64_t base = 0;
  uint64_t size = 0;

  constexpr uint64_t end() const { return base + size; }
  constexpr bool contains(uint64_t address) const { return address >= base && address - base < size; }
  constexpr bool contains(const AddressSpan& other) const {
    return other.base >= base && other.end() <= end();
  }
  constexpr bool overlaps(const AddressSpan& other) const { return base < other.end() && other.base < end(); }
  void* pointer() const { return reinterpret_cast<void*>(base); }
  friend bool operator==(const AddressSpan&, const AddressSpan&) = default;

  // False when size is 0 or base + size wraps.
  static constexpr bool make(uint64_t base, uint64_t size, AddressSpan& out) {
    uint64_t end = 0;
    if (size == 0 || __builtin_add_overflow(base, size, &end)) return false;
    out = {base, size};
    return true;
  }
  static bool make(const void* base, uint64_t size, AddressSpan& out) {
    return make(reinterpret_cast<uint64_t>(base), size, out);
  }
};

}  // namespace hsa_rt
