#include "sim/core/dmabuf.h"

#include <sys/stat.h>

#include <algorithm>

namespace understudy {

Result<DmaBufRef> DmaBufTable::export_buffer(const Call* call, std::shared_ptr<DmaBufExporter> exporter,
                                             BufferRef buffer, bool writable) {
  const auto identity = TRY(buffer->identity());
  const std::uint64_t size_bytes = buffer->size_bytes();
  auto dma_buf = std::make_shared<DmaBuf>(std::move(exporter), std::move(buffer), size_bytes, writable);
  dma_buf->entry_ =
      ledger_.open(ObjectKind::kDmaBuf, call, "dma-buf of " + std::to_string(size_bytes) + " bytes");
  const std::lock_guard lock(mutex_);
  by_identity_[identity] = dma_buf;
  held_.push_back(dma_buf);
  return dma_buf;
}

Result<DmaBufRef> DmaBufTable::of_client_fd(const Client& client, int fd) {
  const struct stat info = TRY(client.stat_fd(fd));
  DmaBufRef dma_buf = of_identity(info.st_dev, info.st_ino);
  if (!dma_buf) return Errno(EINVAL);
  return dma_buf;
}

DmaBufRef DmaBufTable::of_identity(dev_t device, ino_t inode) {
  const std::lock_guard lock(mutex_);
  const auto found = by_identity_.find({device, inode});
  return found == by_identity_.end() ? nullptr : found->second.lock();
}

std::size_t DmaBufTable::sweep() {
  std::vector<DmaBufRef> dropped;  // destroyed after unlocking
  const std::lock_guard lock(mutex_);
  const auto gone = std::partition(held_.begin(), held_.end(), [](const DmaBufRef& dma_buf) {
    return dma_buf->buffer()->held_by(Hold::kDmaBufLockByte);
  });
  dropped.assign(std::make_move_iterator(gone), std::make_move_iterator(held_.end()));
  held_.erase(gone, held_.end());
  std::erase_if(by_identity_, [](const auto& entry) { return entry.second.expired(); });
  return held_.size();
}

void DmaBufTable::clear() {
  std::vector<DmaBufRef> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(held_);
}

}  // namespace understudy
