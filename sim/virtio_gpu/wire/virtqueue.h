// Virtqueue: the split ring of virtio 1.x in guest memory, from both of its ends.
//
// Owner: the driver owns a DriverQueue (and the memory of the rings), the device a DeviceQueue over the same
// addresses. Units: bytes; addresses are guest-physical. Errors: add() ENOSPC, ENOMEM; a ring that the device
// cannot follow makes pop() say Broken with QEMU's words, and nothing more is taken from it until it is set
// up again. Thread-safety: each end belongs to one thread at a time; the two ends may run at once. Mirrors:
// drivers/virtio/virtio_ring.c (split ring, indirect descriptors, event index) and QEMU hw/virtio/virtio.c:
// virtqueue_split_pop, virtqueue_map_desc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/result.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

struct VirtqDescriptor {
  static constexpr std::uint16_t kNext = 1;
  static constexpr std::uint16_t kWrite = 2;
  static constexpr std::uint16_t kIndirect = 4;

  std::uint64_t address;
  std::uint32_t length;
  std::uint16_t flags;
  std::uint16_t next;
};
static_assert(sizeof(VirtqDescriptor) == 16);

struct VirtqUsedElement {
  std::uint32_t id;
  std::uint32_t length;
};
static_assert(sizeof(VirtqUsedElement) == 8);

// Where the three parts of a ring lie, as the driver tells the device.
struct VirtqueueAddresses {
  std::uint16_t size = 0;  // a power of two
  std::uint64_t descriptors = 0;
  std::uint64_t available = 0;
  std::uint64_t used = 0;
};

struct RingFeatures {
  bool indirect_descriptors = true;
  bool event_index = true;
};

class DriverQueue {
 public:
  using Token = std::uint64_t;

  static Result<DriverQueue> create(GuestMemory& memory, std::uint16_t size, RingFeatures features);

  const VirtqueueAddresses& addresses() const { return addresses_; }
  std::uint16_t free_descriptors() const { return free_count_; }

  // Makes one request of `readable` and then `writable` stretches (not both empty). ENOSPC: no descriptors
  // left.
  Result<void> add(std::span<const MemoryRun> readable, std::span<const MemoryRun> writable, Token token);
  // Whether the device wants to be told about what was added since the last call.
  bool kick_prepare();

  struct Used {
    Token token = 0;
    std::uint32_t length_bytes = 0;
  };
  std::optional<Used> take_used();
  // A used element named a request that was not out: the driver stops using the queue (virtqueue_get_buf's
  // "is not a head").
  bool is_broken() const { return broken_; }

 private:
  DriverQueue(GuestMemory& memory, RingFeatures features) : memory_(&memory), features_(features) {}

  struct Request {
    bool out = false;
    Token token = 0;
    std::uint16_t descriptor_count = 0;
    Placement indirect_table;
  };

  GuestMemory* memory_;
  RingFeatures features_;
  VirtqueueAddresses addresses_;
  std::shared_ptr<KernelPages> pages_;
  Placement placement_;
  std::vector<Request> requests_;         // by head
  std::vector<std::uint16_t> free_next_;  // free list over descriptors
  std::uint16_t free_head_ = 0;
  std::uint16_t free_count_ = 0;
  std::uint16_t available_index_ = 0;
  std::uint16_t kicked_index_ = 0;
  std::uint16_t used_index_ = 0;
  bool broken_ = false;
};

// A request as the device took it from the ring.
struct DescriptorChain {
  std::uint16_t head = 0;
  std::vector<MemoryPiece> readable;
  std::vector<MemoryPiece> writable;
};

struct QueueEmpty {};
struct QueueBroken {
  std::string_view reason;
};
using PoppedRequest = std::variant<QueueEmpty, DescriptorChain, QueueBroken>;

class DeviceQueue {
 public:
  // QEMU's VIRTQUEUE_MAX_SIZE: elements of one request, readable and writable together.
  static constexpr std::size_t kMaxElements = 1024;

  // EINVAL: the size is no power of two up to 1024. EFAULT: the rings do not lie in kernel memory.
  static Result<DeviceQueue> create(const GuestMemory& memory, const VirtqueueAddresses& addresses,
                                    RingFeatures features);

  PoppedRequest pop();
  // Gives a request back, `length_bytes` of its writable part written. Whether the driver wants an interrupt.
  bool push(std::uint16_t head, std::uint32_t length_bytes);

 private:
  // What the driver did that QEMU calls virtio_error() for; empty: nothing.
  using Fault = std::string_view;

  DeviceQueue(const GuestMemory& memory, const VirtqueueAddresses& addresses, RingFeatures features)
      : memory_(&memory), addresses_(addresses), features_(features) {}
  Fault take_chain(DescriptorChain& chain);
  // Follows the descriptors of `table` (`count` of them) from `index` on.
  Fault walk(std::span<const MemoryPiece> table, std::uint64_t count, std::uint64_t index,
             DescriptorChain& chain);
  Fault map(const VirtqDescriptor& descriptor, DescriptorChain& chain);

  const GuestMemory* memory_;
  VirtqueueAddresses addresses_;
  RingFeatures features_;
  std::vector<MemoryPiece> descriptors_;
  GuestPagesRef available_pages_;
  GuestPagesRef used_pages_;
  std::span<std::byte> available_;
  std::span<std::byte> used_;
  std::uint16_t available_index_ = 0;
  std::uint16_t used_index_ = 0;
  std::uint16_t signalled_index_ = 0;  // used_index_ when an interrupt was last considered
  bool ever_signalled_ = false;
  std::uint32_t in_flight_ = 0;    // popped and not pushed
  std::size_t element_count_ = 0;  // of the request being popped
  bool broken_ = false;
};

}  // namespace understudy::virtio_gpu
