#include "sim/virtio_gpu/guest/guest_pages.h"

#include <cstring>

namespace understudy::virtio_gpu {

std::size_t BufferPages::read(std::uint64_t offset_bytes, std::span<std::byte> into) {
  const Result<std::span<std::byte>> bytes = buffer_->bytes();
  if (!bytes) return 0;
  std::memcpy(into.data(), bytes.value().data() + offset_bytes, into.size());
  return into.size();
}

std::size_t BufferPages::write(std::uint64_t offset_bytes, std::span<const std::byte> from) {
  const Result<std::span<std::byte>> bytes = buffer_->bytes();
  if (!bytes) return 0;
  std::memcpy(bytes.value().data() + offset_bytes, from.data(), from.size());
  return from.size();
}

std::size_t UserPages::read(std::uint64_t offset_bytes, std::span<std::byte> into) {
  if (client_->gone()) return 0;
  const Result<std::size_t> moved = client_->memory().read_some(address_ + offset_bytes, into);
  return moved ? moved.value() : 0;
}

std::size_t UserPages::write(std::uint64_t offset_bytes, std::span<const std::byte> from) {
  if (client_->gone() || read_only_) return 0;
  const Result<std::size_t> moved = client_->memory().write_some(address_ + offset_bytes, from);
  return moved ? moved.value() : 0;
}

}  // namespace understudy::virtio_gpu
