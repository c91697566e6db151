// The program's memory, reached by the kernel's word: a bad address is EFAULT and never a fault of ours.
//
// Owner: none. Units: bytes. Errors: -errno; a partial move is reported as such. Thread-safety: as the system
// calls. Mirrors: copy_from_user and copy_to_user.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy::shim {

// Bytes moved before the first inaccessible page, or -errno when there are none.
long read_some(std::uint64_t address, void* into, std::size_t bytes);
long write_some(std::uint64_t address, const void* from, std::size_t bytes);
// All or false.
bool write_all(std::uint64_t address, const void* from, std::size_t bytes);
bool read_all(std::uint64_t address, void* into, std::size_t bytes);

}  // namespace understudy::shim
