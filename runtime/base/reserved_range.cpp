#include "runtime/base/reserved_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace hsa_rt {
namespace {

constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void unmap(uint64_t base, uint64_t size) {
  if (size != 0) ::munmap(reinterpret_cast<void*>(base), size);
}

}  // namespace

Result<ReservedRange> ReservedRange::reserve(uint64_t size, uint64_t alignment, uint64_t hint) {
  if (hint != 0 && hint % alignment == 0) {
    void* at =
        ::mmap(reinterpret_cast<void*>(hint), size, PROT_NONE, kReserveFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED) {
      const uint64_t base = reinterpret_cast<uint64_t>(at);
      if (base == hint) return ReservedRange(AddressSpan{base, size});
      unmap(base, size);  // a kernel without MAP_FIXED_NOREPLACE took the address as a mere hint
    }
  }
  uint64_t padded = 0;
  if (__builtin_add_overflow(size, alignment - kPageBytes, &padded)) return Errno{ENOMEM};
  void* at = ::mmap(nullptr, padded, PROT_NONE, kReserveFlags, -1, 0);
  if (at == MAP_FAILED) return Errno{errno};
  const uint64_t start = reinterpret_cast<uint64_t>(at);
  const uint64_t base = (start + alignment - 1) & ~(alignment - 1);
  unmap(start, base - start);
  unmap(base + size, start + padded - (base + size));
  return ReservedRange(AddressSpan{base, size});
}

ReservedRange::ReservedRange(ReservedRange&& other) noexcept : span_(std::exchange(other.span_, {})) {}

ReservedRange& ReservedRange::operator=(ReservedRange&& other) noexcept {
  std::swap(span_, other.span_);
  return *this;
}

ReservedRange::~ReservedRange() {
  unmap(span_.base, span_.size);
}

Result<void> place_file(const AddressSpan& piece, int protection, int fd, uint64_t file_offset) {
  void* at = ::mmap(piece.pointer(), piece.size, protection, MAP_SHARED | MAP_FIXED, fd,
                    static_cast<off_t>(file_offset));
  if (at != MAP_FAILED) return {};
  const int reason = errno;
  // mmap may have removed what was there before it failed: never leave a hole for others to fall into.
  (void)clear_piece(piece);
  return Errno{reason};
}

Result<void> place_anonymous(const AddressSpan& piece, int protection) {
  void* at = ::mmap(piece.pointer(), piece.size, protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED) return Errno{errno};
  return {};
}

Result<void> clear_piece(const AddressSpan& piece) {
  return place_anonymous(piece, PROT_NONE);
}

}  // namespace hsa_rt
