#include "sim/core/file.h"

namespace understudy {

Result<MmapTarget> File::mmap(Call&, const MmapRequest&) {
  return Errno(ENODEV);
}

Result<std::size_t> File::write(const Caller&, std::span<const std::byte>) {
  return Errno(EINVAL);
}

void File::queue_read(std::vector<std::byte> message) {
  std::function<void()> notify;
  {
    const std::lock_guard lock(read_mutex_);
    read_queue_.push_back(std::move(message));
    notify = read_notify_;
  }
  if (notify) notify();
}

bool File::readable() const {
  const std::lock_guard lock(read_mutex_);
  return !read_queue_.empty();
}

Result<std::vector<std::byte>> File::take_read(std::size_t max_bytes) {
  const std::lock_guard lock(read_mutex_);
  if (read_queue_.empty()) return Errno(EAGAIN);
  if (read_queue_.front().size() > max_bytes) return Errno(EINVAL);
  std::vector<std::byte> message = std::move(read_queue_.front());
  read_queue_.pop_front();
  return message;
}

void File::set_read_notify(std::function<void()> notify) {
  const std::lock_guard lock(read_mutex_);
  read_notify_ = std::move(notify);
}

}  // namespace understudy
