#include "sim/xdna/device_heap.h"

namespace understudy::xdna {

bool DeviceHeap::empty() const {
  const std::lock_guard lock(mutex_);
  return chunks_.empty();
}

Result<void> DeviceHeap::add_chunk(const XdnaBoRef& chunk) {
  const std::lock_guard lock(mutex_);
  if (!expandable_ && !chunks_.empty()) return Errno(EOPNOTSUPP);
  if (chunk->size_bytes() > max_bytes_ - total_bytes_) return Errno(ENOSPC);
  chunk->place_heap_chunk(Aperture::kBase + total_bytes_);
  total_bytes_ += chunk->size_bytes();
  chunks_.push_back(chunk);
  return {};
}

Result<void> DeviceHeap::place(XdnaBo& bo) {
  const std::lock_guard lock(mutex_);
  if (bo.size_bytes() > max_bytes_) return Errno(EINVAL);
  const std::uint64_t address = TRY(aperture_.allocate(bo.size_bytes()));
  Result<void> backed = check_mapped_locked();
  if (address + bo.size_bytes() > Aperture::kBase + total_bytes_) backed = Errno(EAGAIN);
  if (!backed) {
    aperture_.release(address, bo.size_bytes());
    return backed;
  }
  used_bytes_ += bo.size_bytes();
  bo.place_in_aperture(weak_from_this(), address);
  return {};
}

void DeviceHeap::release(std::uint64_t device_address, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  aperture_.release(device_address, size_bytes);
  used_bytes_ -= size_bytes;
}

std::uint64_t DeviceHeap::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

std::uint64_t DeviceHeap::client_address(std::uint64_t device_address) const {
  const std::optional<Place> place = locate(device_address);
  if (!place || place->chunk->mapped_address() == kInvalidAddress) return kInvalidAddress;
  return place->chunk->mapped_address() + place->offset_bytes;
}

std::optional<DeviceHeap::Place> DeviceHeap::locate(std::uint64_t device_address) const {
  const std::lock_guard lock(mutex_);
  return locate_locked(device_address);
}

std::optional<DeviceHeap::Place> DeviceHeap::locate_locked(std::uint64_t device_address) const {
  for (const XdnaBoRef& chunk : chunks_) {
    if (device_address < chunk->device_address()) continue;
    const std::uint64_t offset = device_address - chunk->device_address();
    if (offset < chunk->size_bytes()) return Place{chunk, offset, chunk->size_bytes() - offset};
  }
  return std::nullopt;
}

Result<void> DeviceHeap::check_mapped() const {
  const std::lock_guard lock(mutex_);
  return check_mapped_locked();
}

Result<void> DeviceHeap::check_mapped_locked() const {
  if (chunks_.empty()) return Errno(EAGAIN);
  std::uint64_t expected = chunks_.front()->mapped_address();
  for (const XdnaBoRef& chunk : chunks_) {
    const std::uint64_t mapped = chunk->mapped_address();
    if (mapped == kInvalidAddress) return Errno(EAGAIN);
    if (mapped != expected) return Errno(EINVAL);
    expected = mapped + chunk->size_bytes();
  }
  return {};
}

}  // namespace understudy::xdna
