#include "sim/virtio_gpu/guest/control_queue.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace understudy::virtio_gpu {
namespace {

// The largest block kmalloc can give; kvmalloc makes what is larger of single pages.
constexpr std::size_t kLargestContiguousBytes = std::size_t{4} << 20;

constexpr std::uint64_t round_up_to_page(std::uint64_t bytes) {
  return (bytes + kGuestPageBytes - 1) / kGuestPageBytes * kGuestPageBytes;
}

// The runs of a placement, cut to `size_bytes`.
std::vector<MemoryRun> cut(const std::vector<MemoryRun>& runs, std::uint64_t size_bytes) {
  std::vector<MemoryRun> result;
  for (const MemoryRun& run : runs) {
    if (size_bytes == 0) break;
    result.push_back({run.address, std::min(run.length_bytes, size_bytes)});
    size_bytes -= result.back().length_bytes;
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<ControlQueue>> ControlQueue::create(GuestMemory& memory, DeviceModel& device,
                                                           FenceTimeline& fences) {
  const std::uint16_t size = device.queue_size(QueueIndex::kControl);
  DriverQueue ring = TRY(DriverQueue::create(memory, size, {}));
  TRY(device.set_up_queue(QueueIndex::kControl, ring.addresses()));
  auto pages = std::make_shared<KernelPages>(std::uint64_t{size} * kGuestPageBytes);
  Placement placement = TRY(memory.place_contiguous(pages));
  return std::unique_ptr<ControlQueue>(
      new ControlQueue(memory, device, fences, std::move(ring), std::move(pages), std::move(placement)));
}

ControlQueue::ControlQueue(GuestMemory& memory, DeviceModel& device, FenceTimeline& fences, DriverQueue ring,
                           std::shared_ptr<KernelPages> slot_pages, Placement slot_placement)
    : memory_(memory),
      device_(device),
      fences_(fences),
      ring_(std::move(ring)),
      slot_pages_(std::move(slot_pages)),
      slot_placement_(std::move(slot_placement)) {
  for (std::size_t slot = ring_.addresses().size; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

void ControlQueue::queue(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty() || !send(entry)) waiting_.push_back(std::move(entry));
}

bool ControlQueue::send(Entry& entry) {
  // With indirect descriptors each request takes one; nothing else can be short.
  if (free_slots_.empty() || ring_.free_descriptors() == 0) return false;
  Sent sent;
  sent.slot = free_slots_.back();
  free_slots_.pop_back();
  const std::uint64_t slot_address = slot_placement_.address() + sent.slot * kGuestPageBytes;
  const std::span<std::byte> slot =
      slot_pages_->direct().subspan(sent.slot * kGuestPageBytes, kGuestPageBytes);

  // The position in the queue is known only now, so the fence gets its number now.
  if (entry.fence) {
    CommandHeader header;
    std::memcpy(&header, entry.command.data(), sizeof header);
    fences_.emit(entry.fence, header);
    std::memcpy(entry.command.data(), &header, sizeof header);
    for (const drm::GemRef& object : entry.objects) object->reservation().add(entry.fence->fence);
  }
  std::memcpy(slot.data(), entry.command.data(), entry.command.size());
  std::vector<MemoryRun> readable{{slot_address, entry.command.size()}};

  if (entry.data.size() > Slot::kDataRoom) {
    const bool contiguous = entry.data.size() <= kLargestContiguousBytes;
    sent.data = place_driver_memory(entry.data.size(), contiguous);
    std::memcpy(sent.data.pages->direct().data(), entry.data.data(), entry.data.size());
    for (const MemoryRun& run : cut(sent.data.placement.runs(), entry.data.size())) readable.push_back(run);
  } else if (!entry.data.empty()) {
    std::memcpy(slot.data() + Slot::kDataOffset, entry.data.data(), entry.data.size());
    readable.push_back({slot_address + Slot::kDataOffset, entry.data.size()});
  }
  entry.data = {};

  MemoryRun writable{slot_address + Slot::kResponseOffset, entry.response_bytes};
  if (entry.response_bytes > Slot::kResponseRoom) {
    sent.response = place_driver_memory(entry.response_bytes, true);
    writable.address = sent.response.placement.address();
  }
  sent.entry = std::move(entry);
  std::ranges::fill(response_of(sent), std::byte{0});

  const Result<void> added = ring_.add(readable, std::span(&writable, 1), next_token_);
  if (!added) std::abort();  // there was room, and tables come from the driver's own memory
  sent_.emplace(next_token_++, std::move(sent));
  return true;
}

ControlQueue::DriverMemory ControlQueue::place_driver_memory(std::size_t size_bytes, bool contiguous) {
  DriverMemory memory;
  memory.pages = std::make_shared<KernelPages>(round_up_to_page(size_bytes));
  memory.placement = std::move(contiguous ? memory_.place_contiguous(memory.pages)
                                          : memory_.place_pinned(memory.pages, {1, 1, 0}))
                         .value();
  return memory;
}

std::span<std::byte> ControlQueue::response_of(const Sent& sent) const {
  if (sent.response.pages) return sent.response.pages->direct().first(sent.entry.response_bytes);
  return slot_pages_->direct().subspan(sent.slot * kGuestPageBytes + Slot::kResponseOffset,
                                       sent.entry.response_bytes);
}

void ControlQueue::notify() {
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = ring_.kick_prepare();
  }
  if (wanted) device_.kick(QueueIndex::kControl);
}

void ControlQueue::take_answers() {
  struct Answer {
    Entry entry;
    std::vector<std::byte> response;
  };
  std::vector<Answer> answers;
  bool more_sent = false;
  {
    const std::lock_guard lock(mutex_);
    while (const auto used = ring_.take_used()) {
      auto node = sent_.extract(used->token);
      const std::span<std::byte> response = response_of(node.mapped());
      free_slots_.push_back(node.mapped().slot);
      answers.push_back({std::move(node.mapped().entry), {response.begin(), response.end()}});
    }
    while (!waiting_.empty() && send(waiting_.front())) {
      waiting_.pop_front();
      more_sent = true;
    }
  }
  if (more_sent) notify();

  // First all fences and callbacks, then the references: as virtio_gpu_dequeue_ctrl_func and its delayed
  // free.
  for (const Answer& answer : answers) {
    CommandHeader header;
    std::memcpy(&header, answer.response.data(), sizeof header);
    if (header.flags & abi::VIRTIO_GPU_FLAG_FENCE) fences_.process(header.fence_id);
    if (answer.entry.on_answer) answer.entry.on_answer(answer.response);
  }
}

std::size_t ControlQueue::pending_count() const {
  const std::lock_guard lock(mutex_);
  return sent_.size() + waiting_.size();
}

}  // namespace understudy::virtio_gpu
