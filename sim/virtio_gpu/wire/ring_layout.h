// The available and used ring of a split virtqueue as bytes: offsets and the shared counters.
//
// Owner: plain functions over memory that the two ends share. Units: bytes. Errors: none; callers give spans
// of the full size. Thread-safety: the 16-bit counters are sequentially consistent, which is the barrier that
// both ends need between publishing an index and reading the other's event index.
// Mirrors: include/uapi/linux/virtio_ring.h: vring_init, vring_need_event.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu::ring {

// Both rings start with 16 bits of flags and the index.
inline constexpr std::size_t kIndexOffset = 2;
inline constexpr std::size_t kEntriesOffset = 4;

inline std::size_t available_bytes(std::uint16_t size) {
  return kEntriesOffset + std::size_t{size} * 2 + 2;  // ends in the driver's used_event
}
inline std::size_t used_bytes(std::uint16_t size) {
  return kEntriesOffset + std::size_t{size} * sizeof(VirtqUsedElement) +
         2;  // ends in the device's avail_event
}

inline std::atomic_ref<std::uint16_t> counter(std::span<std::byte> bytes, std::size_t offset) {
  return std::atomic_ref<std::uint16_t>(*reinterpret_cast<std::uint16_t*>(bytes.data() + offset));
}
inline std::atomic_ref<std::uint16_t> index_of(std::span<std::byte> ring) {
  return counter(ring, kIndexOffset);
}
// used_event of the available ring, avail_event of the used ring.
inline std::atomic_ref<std::uint16_t> event_of(std::span<std::byte> ring) {
  return counter(ring, ring.size() - 2);
}

inline std::uint16_t available_entry(std::span<std::byte> available, std::uint16_t slot) {
  return counter(available, kEntriesOffset + std::size_t{slot} * 2).load(std::memory_order_relaxed);
}
inline void set_available_entry(std::span<std::byte> available, std::uint16_t slot, std::uint16_t head) {
  counter(available, kEntriesOffset + std::size_t{slot} * 2).store(head, std::memory_order_relaxed);
}
inline VirtqUsedElement used_element(std::span<std::byte> used, std::uint16_t slot) {
  VirtqUsedElement element;
  std::memcpy(&element, used.data() + kEntriesOffset + std::size_t{slot} * sizeof element, sizeof element);
  return element;
}
inline void set_used_element(std::span<std::byte> used, std::uint16_t slot, VirtqUsedElement element) {
  std::memcpy(used.data() + kEntriesOffset + std::size_t{slot} * sizeof element, &element, sizeof element);
}

// Did moving from `before` to `after` pass the other end's event index?
inline bool passes_event(std::uint16_t event, std::uint16_t after, std::uint16_t before) {
  return static_cast<std::uint16_t>(after - event - 1) < static_cast<std::uint16_t>(after - before);
}

}  // namespace understudy::virtio_gpu::ring
