#include "sim/door/shim/dmabuf.h"

#include <errno.h>
#include <linux/dma-buf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>

#include "sim/door/shim/call.h"
#include "sim/door/shim/client_memory.h"

namespace understudy::shim {
namespace {

constexpr std::uint64_t kSyncFlags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_END;
constexpr std::size_t kMaxNameBytes = 32;  // DMA_BUF_NAME_LEN, with the NUL
constexpr std::uint64_t kPageBytes = 4096;

// What the server has answered, one word per inode so that nobody sees half of it: inode << 1 | is a dma-buf.
class Answers {
 public:
  bool find(ino_t inode, bool* is_dma_buf) const {
    const std::uint64_t word = word_of(inode).load(std::memory_order_relaxed);
    *is_dma_buf = (word & 1) != 0;
    return word >> 1 == inode;
  }
  void remember(ino_t inode, bool is_dma_buf) {
    word_of(inode).store(inode << 1 | (is_dma_buf ? 1 : 0), std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kCount = 64;
  std::atomic<std::uint64_t>& word_of(ino_t inode) { return words_[inode % kCount]; }
  const std::atomic<std::uint64_t>& word_of(ino_t inode) const { return words_[inode % kCount]; }
  std::atomic<std::uint64_t> words_[kCount]{};
};

constinit Answers answers;

long sync(std::uint64_t argument) {
  dma_buf_sync wish{};
  if (!read_all(argument, &wish, sizeof wish)) return -EFAULT;
  if (wish.flags & ~kSyncFlags) return -EINVAL;
  // The pages are the same everywhere, so there is nothing to do; but it must be said for reading or writing.
  return (wish.flags & DMA_BUF_SYNC_RW) != 0 ? 0 : -EINVAL;
}

long set_name(std::uint64_t argument) {
  char name[kMaxNameBytes];
  const long got = read_some(argument, name, sizeof name);
  if (got <= 0) return -EFAULT;
  if (::memchr(name, '\0', static_cast<std::size_t>(got)) != nullptr) return 0;
  return got == static_cast<long>(sizeof name) ? -EINVAL : -EFAULT;
}

}  // namespace

bool is_dma_buf(const Descriptor& descriptor) {
  if (descriptor.kind != DescriptorKind::kMemory) return false;
  bool answer = false;
  if (answers.find(descriptor.info.st_ino, &answer)) return answer;
  door::RequestHeader request{};
  request.kind = door::kOwnership;
  request.argument = descriptor.info.st_ino;
  request.length = descriptor.info.st_dev;
  Call call;
  if (call.perform(request) != 0 || call.value() < 0) return false;
  answers.remember(descriptor.info.st_ino, call.value() == 1);
  return call.value() == 1;
}

bool is_dma_buf_command(unsigned command) {
  return _IOC_TYPE(command) == DMA_BUF_BASE;
}

long dma_buf_seek(const struct stat& info, std::int64_t offset, int whence) {
  if ((whence != SEEK_END && whence != SEEK_SET) || offset != 0) return -EINVAL;
  return whence == SEEK_END ? info.st_size : 0;
}

long dma_buf_ioctl(unsigned command, std::uint64_t argument) {
  switch (command) {
    case DMA_BUF_IOCTL_SYNC:
      return sync(argument);
    case DMA_BUF_SET_NAME_A:
    case DMA_BUF_SET_NAME_B:
      return set_name(argument);
    default:
      return -ENOTTY;
  }
}

bool dma_buf_may_map(const struct stat& info, std::uint64_t length, std::uint64_t offset) {
  const std::uint64_t pages = length / kPageBytes + (length % kPageBytes != 0 ? 1 : 0);
  return offset / kPageBytes + pages <= static_cast<std::uint64_t>(info.st_size) / kPageBytes;
}

}  // namespace understudy::shim
