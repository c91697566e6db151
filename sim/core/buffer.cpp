#include "sim/core/buffer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace understudy {
namespace {

struct flock lock_byte(Hold hold, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(hold);
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::shared_ptr<Buffer> Buffer::create(std::string name, std::uint64_t size_bytes) {
  return std::make_shared<Buffer>(std::move(name), size_bytes);
}

Result<void> Buffer::ensure_memfd() {
  const std::lock_guard lock(mutex_);
  if (memfd_) return {};
  memfd_ = TRY(make_memfd(name_.c_str(), size_bytes_));
  touched_.store(true, std::memory_order_release);
  return {};
}

Result<std::span<std::byte>> Buffer::bytes() {
  TRY(ensure_memfd());
  const std::lock_guard lock(mutex_);
  if (!mapping_) mapping_ = TRY(Mapping::of_fd(memfd_.get(), size_bytes_));
  return mapping_.bytes();
}

Result<std::pair<dev_t, ino_t>> Buffer::identity() {
  TRY(ensure_memfd());
  struct stat info {};
  if (::fstat(memfd_.get(), &info) != 0) return last_errno();
  return std::pair(info.st_dev, info.st_ino);
}

Result<UniqueFd> Buffer::open_description(Hold hold, bool writable) {
  TRY(ensure_memfd());
  UniqueFd description = TRY(reopen(memfd_.get(), writable ? O_RDWR : O_RDONLY));
  struct flock lock = lock_byte(hold, F_RDLCK);
  if (::fcntl(description.get(), F_OFD_SETLK, &lock) != 0) return last_errno();
  return description;
}

void Buffer::clear() {
  if (!touched()) return;
  ::fallocate(memfd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes_));
}

bool Buffer::held_by(Hold hold) const {
  if (!touched()) return false;
  struct flock lock = lock_byte(hold, F_WRLCK);
  if (::fcntl(memfd_.get(), F_OFD_GETLK, &lock) != 0) return false;
  return lock.l_type != F_UNLCK;
}

}  // namespace understudy
