#include <bit>
#include <utility>

#include "sim/virtio_gpu/wire/ring_layout.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu {

Result<DeviceQueue> DeviceQueue::create(const GuestMemory& memory, const VirtqueueAddresses& addresses,
                                        RingFeatures features) {
  if (addresses.size == 0 || addresses.size > kMaxElements || !std::has_single_bit(addresses.size))
    return Errno(EINVAL);
  if (addresses.available % 2 != 0 || addresses.used % 4 != 0) return Errno(EINVAL);

  DeviceQueue queue(memory, addresses, features);
  TRY(memory.look_up(addresses.descriptors, std::uint64_t{addresses.size} * sizeof(VirtqDescriptor),
                     queue.descriptors_));
  queue.available_ =
      TRY(memory.direct(addresses.available, ring::available_bytes(addresses.size), queue.available_pages_));
  queue.used_ = TRY(memory.direct(addresses.used, ring::used_bytes(addresses.size), queue.used_pages_));
  return queue;
}

PoppedRequest DeviceQueue::pop() {
  if (broken_) return QueueEmpty{};
  const std::uint16_t published = ring::index_of(available_).load();
  if (published == available_index_) return QueueEmpty{};

  DescriptorChain chain;
  Fault fault;
  if (static_cast<std::uint16_t>(published - available_index_) > addresses_.size) {
    fault = "Guest moved used index";
  } else {
    fault = take_chain(chain);
  }
  if (!fault.empty()) {
    broken_ = true;
    return QueueBroken{fault};
  }
  ++in_flight_;
  return chain;
}

DeviceQueue::Fault DeviceQueue::take_chain(DescriptorChain& chain) {
  if (in_flight_ >= addresses_.size) return "Virtqueue size exceeded";
  chain.head = ring::available_entry(available_, available_index_ % addresses_.size);
  ++available_index_;
  if (chain.head >= addresses_.size) return "Guest says index is available";
  if (features_.event_index) ring::event_of(used_).store(available_index_);

  element_count_ = 0;
  VirtqDescriptor first;
  copy_from(descriptors_, chain.head * sizeof first, std::as_writable_bytes(std::span(&first, 1)));
  if ((first.flags & VirtqDescriptor::kIndirect) == 0)
    return walk(descriptors_, addresses_.size, chain.head, chain);

  if (first.length == 0 || first.length % sizeof(VirtqDescriptor) != 0)
    return "Invalid size for indirect buffer table";
  std::vector<MemoryPiece> table;
  if (!memory_->look_up(first.address, first.length, table)) return "Cannot map indirect buffer";
  return walk(table, first.length / sizeof(VirtqDescriptor), 0, chain);
}

DeviceQueue::Fault DeviceQueue::walk(std::span<const MemoryPiece> table, std::uint64_t count,
                                     std::uint64_t index, DescriptorChain& chain) {
  for (;;) {
    VirtqDescriptor descriptor;
    if (copy_from(table, index * sizeof descriptor, std::as_writable_bytes(std::span(&descriptor, 1))) <
        sizeof descriptor)
      return "Cannot map indirect buffer";
    if (const Fault fault = map(descriptor, chain); !fault.empty()) return fault;
    if (element_count_ > count) return "Looped descriptor";
    if ((descriptor.flags & VirtqDescriptor::kNext) == 0) return {};
    if (descriptor.next >= count) return "Desc next is beyond the table";
    index = descriptor.next;
  }
}

DeviceQueue::Fault DeviceQueue::map(const VirtqDescriptor& descriptor, DescriptorChain& chain) {
  const bool is_writable = (descriptor.flags & VirtqDescriptor::kWrite) != 0;
  if (!is_writable && !chain.writable.empty()) return "Incorrect order for descriptors";
  if (descriptor.length == 0) return "virtio: zero sized buffers are not allowed";
  std::vector<MemoryPiece> pieces;
  if (!memory_->look_up(descriptor.address, descriptor.length, pieces))
    return "virtio: bogus descriptor or out of resources";
  element_count_ += pieces.size();
  if (element_count_ > kMaxElements)
    return is_writable ? "virtio: too many write descriptors in indirect table"
                       : "virtio: too many read descriptors in indirect table";
  std::vector<MemoryPiece>& side = is_writable ? chain.writable : chain.readable;
  side.insert(side.end(), pieces.begin(), pieces.end());
  return {};
}

bool DeviceQueue::push(std::uint16_t head, std::uint32_t length_bytes) {
  if (in_flight_ > 0) --in_flight_;  // an injected fault may answer twice
  ring::set_used_element(used_, used_index_ % addresses_.size, {head, length_bytes});
  ++used_index_;
  ring::index_of(used_).store(used_index_);
  if (!features_.event_index) return (ring::counter(available_, 0).load() & 1) == 0;

  const std::uint16_t before = std::exchange(signalled_index_, used_index_);
  const bool first = !std::exchange(ever_signalled_, true);
  return first || ring::passes_event(ring::event_of(available_).load(), used_index_, before);
}

}  // namespace understudy::virtio_gpu
