// ReservedRange owns a piece of the process's address space. It starts out inaccessible (PROT_NONE); memory
// is placed in it with place() and taken out with clear(), which makes the piece inaccessible again instead
// of leaving a hole that another mmap could take. The destructor gives the whole range back, whatever is
// mapped inside.
//
// All MAP_FIXED in the runtime happens in the .cpp of this class. Thread-safety: place and clear on disjoint
// pieces may run concurrently; the owner orders everything else.
#pragma once

#include <cstdint>

#include "runtime/base/address_span.h"
#include "runtime/base/expected.h"

namespace hsa_rt {

class ReservedRange {
 public:
  // `size` and `alignment` are page multiples, `alignment` a power of two. `hint` (0: none) is honoured when
  // the addresses are free and suitably aligned. ENOMEM when the address space has no such room.
  static Result<ReservedRange> reserve(uint64_t size, uint64_t alignment = kPageBytes, uint64_t hint = 0);

  ReservedRange() = default;
  ReservedRange(ReservedRange&& other) noexcept;
  ReservedRange& operator=(ReservedRange&& other) noexcept;
  ~ReservedRange();

  const AddressSpan& span() const { return span_; }
  void* base() const { return span_.pointer(); }

 private:
  explicit ReservedRange(AddressSpan span) : span_(span) {}
  AddressSpan span_;
};

// Maps `fd` shared at `file_offset` over a page-aligned piece of a reserved range. On failure the piece is
// inaccessible.
Result<void> place_file(const AddressSpan& piece, int protection, int fd, uint64_t file_offset);

// Private zero pages over a piece of a reserved range.
Result<void> place_anonymous(const AddressSpan& piece, int protection);

// Makes a piece inaccessible and drops what was mapped there; the addresses stay reserved.
Result<void> clear_piece(const AddressSpan& piece);

}  // namespace hsa_rt
