#include "runtime/core/queue.h"

#include <cstring>
#include <new>

namespace hsa_rt {
namespace {

class SoftQueue final : public Queue {
 public:
  SoftQueue(std::unique_ptr<BackedRange> descriptor, std::unique_ptr<BackedRange> ring)
      : Queue(nullptr, std::move(descriptor)), ring_(std::move(ring)) {}
  Status<void> inactivate() override { return {}; }

 private:
  const std::unique_ptr<BackedRange> ring_;
};

constexpr uint64_t kPacketBytes = 64;

}  // namespace

Queue::Queue(Agent* agent, std::unique_ptr<BackedRange> descriptor)
    : agent_(agent), descriptor_(std::move(descriptor)) {
  new (descriptor_->data()) amd_queue_t{};
  AMD_HSA_BITS_SET(amd_queue().queue_properties, AMD_QUEUE_PROPERTIES_IS_PTR64, 1);
  amd_queue().read_dispatch_id_field_base_byte_offset =
      static_cast<uint32_t>(offsetof(amd_queue_t, read_dispatch_id));
}

Status<hsa_queue_t*> QueueTable::create(Agent& agent, const QueueRequest& request) {
  switch (agent.kind()) {
    case DeviceKind::kGpu:
      return publish(TRY(make_gpu_queue(parts_, agent, request)));
    case DeviceKind::kNpu:
      return publish(TRY(make_npu_queue(parts_, agent, request)));
    case DeviceKind::kCpu:
      break;
  }
  return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
}

Status<hsa_queue_t*> QueueTable::create_soft(const QueueRequest& request, uint32_t features,
                                             hsa_signal_t doorbell) {
  auto descriptor = TRY(or_status(allocate_shared_pages(parts_, nullptr, sizeof(amd_queue_t))));
  auto ring = TRY(or_status(allocate_shared_pages(parts_, nullptr, request.packet_count * kPacketBytes)));
  write_invalid_packets(ring->data(), request.packet_count);
  void* const base = ring->data();
  auto queue = std::make_shared<SoftQueue>(std::move(descriptor), std::move(ring));
  hsa_queue_t& view = *queue->handle();
  view.type = static_cast<hsa_queue_type_t>(request.type);
  view.features = features;
  view.base_address = base;
  view.doorbell_signal = doorbell;
  view.size = request.packet_count;
  view.id = next_queue_id();
  return publish(std::move(queue));
}

hsa_queue_t* QueueTable::publish(std::shared_ptr<Queue> queue) {
  hsa_queue_t* const handle = queue->handle();
  const std::lock_guard guard(lock_);
  queues_.emplace(handle, std::move(queue));
  return handle;
}

Status<void> QueueTable::destroy(hsa_queue_t* queue) {
  std::shared_ptr<Queue> last;  // goes after the lock is released
  const std::lock_guard guard(lock_);
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return HSA_STATUS_ERROR_INVALID_QUEUE;
  last = std::move(found->second);
  queues_.erase(found);
  return {};
}

std::shared_ptr<Queue> QueueTable::find(const hsa_queue_t* queue) {
  const std::lock_guard guard(lock_);
  const auto found = queues_.find(queue);
  return found == queues_.end() ? nullptr : found->second;
}

Result<std::unique_ptr<BackedRange>> allocate_shared_pages(const QueueParts& parts, Agent* agent,
                                                           uint64_t size_bytes) {
  AllocationRequest request;
  if (!align_up(size_bytes, kPageBytes, request.size_bytes)) return Errno{ENOMEM};
  request.placement = Placement::kHost;
  request.uncached = true;
  request.executable = true;
  std::vector<AccessRequest> access = parts.cpus;
  if (agent != nullptr) access.push_back({agent, Permission::kReadWrite});
  return BackedRange::allocate(parts.host_memory, request, access);
}

void write_invalid_packets(void* ring, uint32_t packet_count) {
  auto* packet = static_cast<std::byte*>(ring);
  const uint16_t invalid = HSA_PACKET_TYPE_INVALID << HSA_PACKET_HEADER_TYPE;
  for (uint32_t i = 0; i < packet_count; ++i, packet += kPacketBytes)
    std::memcpy(packet, &invalid, sizeof(invalid));
}

uint64_t next_queue_id() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1);
}

}  // namespace hsa_rt
