#include <bit>
#include <cstring>
#include <new>

#include "sim/virtio_gpu/wire/ring_layout.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

// Lays descriptors out one after the other; `index_at(i)` is where the i-th goes.
template <typename IndexAt>
void write_chain(VirtqDescriptor* table, std::span<const MemoryRun> readable,
                 std::span<const MemoryRun> writable, IndexAt index_at) {
  const std::size_t count = readable.size() + writable.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_writable = i >= readable.size();
    const MemoryRun& run = is_writable ? writable[i - readable.size()] : readable[i];
    VirtqDescriptor& descriptor = table[index_at(i)];
    descriptor.address = run.address;
    descriptor.length = static_cast<std::uint32_t>(run.length_bytes);
    descriptor.flags = is_writable ? VirtqDescriptor::kWrite : 0;
    descriptor.next = 0;
    if (i + 1 < count) {
      descriptor.flags |= VirtqDescriptor::kNext;
      descriptor.next = static_cast<std::uint16_t>(index_at(i + 1));
    }
  }
}

}  // namespace

Result<DriverQueue> DriverQueue::create(GuestMemory& memory, std::uint16_t size, RingFeatures features) {
  if (size == 0 || !std::has_single_bit(size)) return Errno(EINVAL);
  const std::uint64_t available_offset = std::uint64_t{size} * sizeof(VirtqDescriptor);
  const std::uint64_t used_offset = round_up(available_offset + ring::available_bytes(size), 4);

  DriverQueue queue(memory, features);
  queue.pages_ =
      std::make_shared<KernelPages>(round_up(used_offset + ring::used_bytes(size), kGuestPageBytes));
  queue.placement_ = TRY(memory.place_contiguous(queue.pages_));
  const std::uint64_t base = queue.placement_.address();
  queue.addresses_ = {size, base, base + available_offset, base + used_offset};
  queue.requests_.resize(size);
  queue.free_next_.resize(size);
  for (std::uint16_t i = 0; i < size; ++i) queue.free_next_[i] = static_cast<std::uint16_t>(i + 1);
  queue.free_count_ = size;
  return queue;
}

Result<void> DriverQueue::add(std::span<const MemoryRun> readable, std::span<const MemoryRun> writable,
                              Token token) {
  const std::size_t total = readable.size() + writable.size();
  const bool indirect = features_.indirect_descriptors && total > 1;
  const std::size_t needed = indirect ? 1 : total;
  if (needed > free_count_) return Errno(ENOSPC);

  const std::span<std::byte> ring = pages_->direct();
  auto* descriptors = reinterpret_cast<VirtqDescriptor*>(ring.data());
  const std::uint16_t head = free_head_;
  Placement table_placement;
  if (indirect) {
    const auto table =
        std::make_shared<KernelPages>(round_up(total * sizeof(VirtqDescriptor), kGuestPageBytes));
    table_placement = TRY(memory_->place_contiguous(table));
    write_chain(reinterpret_cast<VirtqDescriptor*>(table->direct().data()), readable, writable,
                [](std::size_t i) { return i; });
    descriptors[head] = {table_placement.address(),
                         static_cast<std::uint32_t>(total * sizeof(VirtqDescriptor)),
                         VirtqDescriptor::kIndirect, 0};
    free_head_ = free_next_[head];
  } else {
    std::vector<std::uint16_t> slots;
    for (std::size_t i = 0; i < total; ++i) {
      slots.push_back(free_head_);
      free_head_ = free_next_[free_head_];
    }
    write_chain(descriptors, readable, writable, [&](std::size_t i) { return slots[i]; });
  }
  free_count_ = static_cast<std::uint16_t>(free_count_ - needed);
  requests_[head] = {true, token, static_cast<std::uint16_t>(needed), std::move(table_placement)};

  const std::span<std::byte> available =
      ring.subspan(addresses_.available - addresses_.descriptors, ring::available_bytes(addresses_.size));
  ring::set_available_entry(available, available_index_ % addresses_.size, head);
  ++available_index_;
  ring::index_of(available).store(available_index_);
  return {};
}

bool DriverQueue::kick_prepare() {
  const std::uint16_t before = kicked_index_;
  kicked_index_ = available_index_;
  if (!features_.event_index) return before != available_index_;
  const std::span<std::byte> used =
      pages_->direct().subspan(addresses_.used - addresses_.descriptors, ring::used_bytes(addresses_.size));
  return ring::passes_event(ring::event_of(used).load(), available_index_, before);
}

std::optional<DriverQueue::Used> DriverQueue::take_used() {
  if (broken_) return std::nullopt;
  const std::span<std::byte> ring = pages_->direct();
  const std::span<std::byte> used =
      ring.subspan(addresses_.used - addresses_.descriptors, ring::used_bytes(addresses_.size));
  const std::span<std::byte> available =
      ring.subspan(addresses_.available - addresses_.descriptors, ring::available_bytes(addresses_.size));
  // Ask for an interrupt at the next element, then look: what arrives in between is either seen or announced.
  ring::event_of(available).store(used_index_);
  if (ring::index_of(used).load() == used_index_) return std::nullopt;

  const VirtqUsedElement element = ring::used_element(used, used_index_ % addresses_.size);
  if (element.id >= requests_.size() || !requests_[element.id].out) {
    broken_ = true;
    return std::nullopt;
  }
  ++used_index_;
  Request request = std::move(requests_[element.id]);
  requests_[element.id] = {};

  // Give the descriptors back: the chain still says which they are.
  const auto* descriptors = reinterpret_cast<const VirtqDescriptor*>(ring.data());
  std::uint16_t last = static_cast<std::uint16_t>(element.id);
  for (std::uint16_t i = 1; i < request.descriptor_count; ++i) {
    free_next_[last] = descriptors[last].next;
    last = descriptors[last].next;
  }
  free_next_[last] = free_head_;
  free_head_ = static_cast<std::uint16_t>(element.id);
  free_count_ = static_cast<std::uint16_t>(free_count_ + request.descriptor_count);
  return Used{request.token, element.length};
}

}  // namespace understudy::virtio_gpu
