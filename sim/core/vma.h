// Vma: what a client has mapped where: the answer to "could the driver fault these pages in?" without
// touching them.
//
// Owner: plain values, true at the moment of the query. Units: bytes. Errors: EFAULT for an address outside
// every mapping; ENOSYS when the host shows no maps of this client (then only trying to read tells).
// Thread-safety: stateless. Mirrors: find_vma() and the checks of mm/hmm.c: hmm_range_fault.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "sim/core/client.h"
#include "sim/core/result.h"

namespace understudy {

struct Vma {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool has_file = false;  // also shared anonymous memory, as in the kernel
};

// An accessor (ClientMemory) to an address space that the host's kernel does not know, such as that of a
// virtual machine's process, is this as well.
class VmaSource {
 public:
  virtual ~VmaSource() = default;
  virtual Result<Vma> vma_at(std::uint64_t address) = 0;
};

// A file of which the client shares pages, and where.
struct FileMapping {
  std::uint64_t start = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t file_offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
  bool writable = false;
};

// All shared file mappings the client can read, by address; none when the host shows no maps of this client.
std::vector<FileMapping> shared_file_mappings(const Client& client);

// The mapping that covers `address`.
Result<Vma> vma_at(Client& client, std::uint64_t address);

// EFAULT unless every page of the range is mapped, readable and (if asked) writable.
Result<void> check_user_range(Client& client, std::uint64_t address, std::uint64_t size_bytes, bool writable);

}  // namespace understudy
