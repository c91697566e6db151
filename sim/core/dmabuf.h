// DmaBuf: an exported buffer that other files and processes can import.
//
// Owner: shared by import caches and driver objects; the table keeps it alive while any client descriptor or
// mapping of it exists (swept, see Buffer). Units: bytes. Errors: as Buffer. Thread-safety: all methods from
// any thread. Mirrors: drivers/dma-buf/dma-buf.c: struct dma_buf, dma_buf_export, dma_buf_fd, dma_buf_get.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/core/buffer.h"
#include "sim/core/client.h"
#include "sim/core/ledger.h"
#include "sim/core/result.h"

namespace understudy {

// What was exported; drivers derive their GEM object from it and recognise their own by dynamic_cast.
class DmaBufExporter {
 public:
  virtual ~DmaBufExporter() = default;
};

class DmaBuf {
 public:
  DmaBuf(std::shared_ptr<DmaBufExporter> exporter, BufferRef buffer, std::uint64_t size_bytes, bool writable)
      : exporter_(std::move(exporter)),
        buffer_(std::move(buffer)),
        size_bytes_(size_bytes),
        writable_(writable) {}

  const std::shared_ptr<DmaBufExporter>& exporter() const { return exporter_; }
  const BufferRef& buffer() const { return buffer_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // The access mode of the first export sticks to every descriptor.
  bool writable() const { return writable_; }
  // A descriptor for the client.
  Result<UniqueFd> open_descriptor() { return buffer_->open_description(Hold::kDmaBufLockByte, writable_); }

 private:
  friend class DmaBufTable;
  const std::shared_ptr<DmaBufExporter> exporter_;
  const BufferRef buffer_;
  const std::uint64_t size_bytes_;
  const bool writable_;
  LedgerEntry entry_;
};

using DmaBufRef = std::shared_ptr<DmaBuf>;

class DmaBufTable {
 public:
  explicit DmaBufTable(Ledger& ledger) : ledger_(ledger) {}

  // Makes the dma-buf of an object (the caller caches it on the object, as the kernel does).
  Result<DmaBufRef> export_buffer(const Call* call, std::shared_ptr<DmaBufExporter> exporter,
                                  BufferRef buffer, bool writable);
  // The dma-buf behind a client's descriptor. EBADF: not open; EINVAL: not a dma-buf.
  Result<DmaBufRef> of_client_fd(const Client& client, int fd);
  DmaBufRef of_identity(dev_t device, ino_t inode);
  // Forgets those that no client holds any more; returns how many are still held.
  std::size_t sweep();
  // The machine ends: forgets all.
  void clear();

 private:
  Ledger& ledger_;
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<DmaBuf>> by_identity_;
  std::vector<DmaBufRef> held_;  // by clients, as far as the last sweep knows
};

}  // namespace understudy
