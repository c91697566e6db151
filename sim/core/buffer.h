// Buffer: device memory (the pages of a BO): a sparse memfd, made when first needed, plus who in user space
// still has it open.
//
// Owner: shared by whatever refers to it (GEM object, KFD handle, dma-buf, device map). Units: bytes.
// Errors: ENOMEM/EMFILE from making the memfd. Thread-safety: all methods from any thread.
// Mirrors: the ttm_buffer_object/shmem pages behind a GEM object.
//
// Descriptions given to clients carry an OFD read lock on one byte of the memfd: kMapLockByte for CPU
// mappings, kDmaBufLockByte for dma-buf descriptors. The kernel drops the lock exactly when the last
// descriptor and the last mapping made from it are gone, in whichever process; held_by() asks for it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "sim/core/fd.h"
#include "sim/core/result.h"

namespace understudy {

enum class Hold : std::uint8_t { kMapLockByte = 0, kDmaBufLockByte = 1 };

class Buffer {
 public:
  // `name` shows in /proc/PID/maps of clients. size_bytes must be a page multiple and non-zero.
  static std::shared_ptr<Buffer> create(std::string name, std::uint64_t size_bytes);
  Buffer(std::string name, std::uint64_t size_bytes) : name_(std::move(name)), size_bytes_(size_bytes) {}
  Buffer(const Buffer&) = delete;

  std::uint64_t size_bytes() const { return size_bytes_; }
  // The server's own mapping of all bytes, made at first use. Fails with ENOMEM/EMFILE.
  Result<std::span<std::byte>> bytes();
  // (st_dev, st_ino) of the memfd: how a dma-buf descriptor is recognised.
  Result<std::pair<dev_t, ino_t>> identity();
  // A description for one client mapping or dma-buf export, locked as `hold`.
  Result<UniqueFd> open_description(Hold hold, bool writable);
  // Does any client still have a descriptor or mapping of that kind?
  bool held_by(Hold hold) const;
  // All bytes become zero, and the pages are given back to the host.
  void clear();
  // Was a memfd ever made? (An untouched buffer costs no descriptor.)
  bool touched() const { return touched_.load(std::memory_order_acquire); }

 private:
  Result<void> ensure_memfd();  // takes mutex_
  const std::string name_;
  const std::uint64_t size_bytes_;
  std::atomic<bool> touched_{false};
  mutable std::mutex mutex_;
  UniqueFd memfd_;   // guarded by mutex_ until touched_
  Mapping mapping_;  // guarded by mutex_
};

using BufferRef = std::shared_ptr<Buffer>;

}  // namespace understudy
