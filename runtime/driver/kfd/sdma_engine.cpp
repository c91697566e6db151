#include "runtime/driver/kfd/sdma_engine.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/device_buffer.h"
#include "runtime/driver/kfd/kfd_device.h"
#include "runtime/driver/kfd/kfd_queue.h"
#include "runtime/driver/kfd/sdma_packets.h"
#include "uapi/kfd.h"

namespace hsa_rt::kfd {
namespace {

constexpr uint64_t kRingBytes = uint64_t{1} << 20;
// A job is written in pieces no larger than this, so that any job fits the ring.
constexpr size_t kPieceDwords = kRingBytes / 4 / 8;

class SdmaEngine final : public CopyEngine {
 public:
  SdmaEngine(KfdDevice& device, DeviceBuffer ring, DeviceBuffer pointers, uint32_t queue_id,
             volatile uint64_t* doorbell, bool has_atomics)
      : device_(device),
        ring_(std::move(ring)),
        pointers_(std::move(pointers)),
        queue_id_(queue_id),
        doorbell_(doorbell),
        has_atomics_(has_atomics),
        writer_(SdmaVariant::of(device.properties().get32("gfx_target_version"))),
        variant_(SdmaVariant::of(device.properties().get32("gfx_target_version"))) {}

  ~SdmaEngine() override { destroy_queue(device_.kfd_fd(), queue_id_); }

  Result<void> submit(const CopyJob& job) override {
    const std::lock_guard guard(lock_);
    write_prologue(job);
    for (const CopySegment& segment : job.segments) {
      for (uint64_t done = 0; done < segment.size_bytes;) {
        if (writer_.dwords().size() >= kPieceDwords) flush_piece();
        done += write_chunk(segment, done, job.fill_value);
      }
    }
    write_epilogue(job);
    flush_piece();
    *doorbell_ = write_position_;
    return {};
  }

  // Both pointers count bytes and never wrap. They share a page, on cache lines of their own.
  static constexpr uint64_t kReadPointerOffset = 0;
  static constexpr uint64_t kWritePointerOffset = 128;

 private:
  std::atomic<uint64_t>& pointer(uint64_t offset) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(pointers_.address() + offset);
  }

  void write_prologue(const CopyJob& job) {
    for (const uint64_t value_address : job.wait_for_zero) {
      // The engine compares 32 bits at a time: a 64-bit value is zero when its halves are, the upper one
      // first.
      if (writer_.dwords().size() >= kPieceDwords) flush_piece();
      writer_.wait_until_zero(value_address + 4);
      writer_.wait_until_zero(value_address);
    }
    if (job.completion.start_timestamp_address != 0)
      writer_.timestamp(job.completion.start_timestamp_address);
    writer_.flush_hdp();
    writer_.invalidate_caches();
  }

  uint64_t write_chunk(const CopySegment& segment, uint64_t done, std::optional<uint32_t> fill_value) {
    const uint64_t limit = fill_value ? SdmaWriter::kMaxFillBytes : variant_.max_copy_bytes;
    const uint64_t size = std::min(segment.size_bytes - done, limit);
    if (fill_value) {
      writer_.fill(segment.destination + done, *fill_value, size);
    } else {
      writer_.copy_linear(segment.destination + done, segment.source + done, size);
    }
    return size;
  }

  void write_epilogue(const CopyJob& job) {
    writer_.write_back_caches();
    const CompletionTarget& target = job.completion;
    if (target.end_timestamp_address != 0) writer_.timestamp(target.end_timestamp_address);
    if (target.value_address != 0) {
      if (has_atomics_) {
        writer_.atomic_add64(target.value_address, -1);
      } else {
        // No atomics across this link: store what the value will be, upper half first.
        const auto* value = reinterpret_cast<const std::atomic<int64_t>*>(target.value_address);
        const uint64_t after = static_cast<uint64_t>(value->load(std::memory_order_relaxed) - 1);
        writer_.fence(target.value_address + 4, static_cast<uint32_t>(after >> 32));
        writer_.fence(target.value_address, static_cast<uint32_t>(after));
      }
    }
    if (target.mailbox_address != 0) {
      writer_.fence(target.mailbox_address, target.event_id);
      writer_.trap(target.event_id);
    }
  }

  // Moves what has been written to the ring and publishes it.
  void flush_piece() {
    const std::vector<uint32_t>& dwords = writer_.dwords();
    const uint64_t bytes = dwords.size() * sizeof(uint32_t);
    const uint64_t at = write_position_ % kRingBytes;
    const uint64_t until_end = kRingBytes - at;
    const uint64_t padding =
        bytes > until_end ? until_end : 0;  // packets must not straddle the end of the ring
    while (write_position_ + padding + bytes - pointer(kReadPointerOffset).load(std::memory_order_acquire) >
           kRingBytes) {
      // The engine cannot make room for what it was not told of.
      *doorbell_ = write_position_;
      ::sched_yield();
    }
    auto* base = static_cast<std::byte*>(ring_.data());
    std::memset(base + at, 0, padding);  // zero dwords are no-operations
    std::memcpy(base + (at + padding) % kRingBytes, dwords.data(), bytes);
    write_position_ += padding + bytes;
    pointer(kWritePointerOffset).store(write_position_, std::memory_order_release);
    writer_.clear();
  }

  KfdDevice& device_;
  const DeviceBuffer ring_;
  const DeviceBuffer pointers_;
  const uint32_t queue_id_;
  volatile uint64_t* const doorbell_;
  const bool has_atomics_;
  std::mutex lock_;
  uint64_t write_position_ = 0;
  SdmaWriter writer_;
  const SdmaVariant variant_;
};

bool link_to_host_has_atomics(const DeviceInfo& info) {
  for (const LinkInfo& link : info.links) {
    if (link.node_to == info.nearest_cpu_node) return link.atomics_64bit;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<CopyEngine>> create_sdma_engine(KfdDevice& device) {
  KfdDevice* const only_here[] = {&device};
  AllocationRequest host_memory;
  host_memory.placement = Placement::kHost;
  host_memory.uncached = true;
  host_memory.size_bytes = kRingBytes;
  DeviceBuffer ring = TRY(DeviceBuffer::create(device, host_memory, only_here, true));
  host_memory.size_bytes = kPageBytes;
  DeviceBuffer pointers = TRY(DeviceBuffer::create(device, host_memory, only_here, true));

  uapi::kfd::kfd_ioctl_create_queue_args args{};
  args.ring_base_address = ring.address();
  args.ring_size = static_cast<uint32_t>(kRingBytes);
  args.read_pointer_address = pointers.address() + SdmaEngine::kReadPointerOffset;
  args.write_pointer_address = pointers.address() + SdmaEngine::kWritePointerOffset;
  args.gpu_id = device.gpu_id();
  args.queue_type = uapi::kfd::KFD_IOC_QUEUE_TYPE_SDMA;
  args.queue_percentage = uapi::kfd::KFD_MAX_QUEUE_PERCENTAGE;
  args.queue_priority = uapi::kfd::KFD_MAX_QUEUE_PRIORITY;
  TRY(driver_ioctl<uapi::kfd::CreateQueue>(device.kfd_fd(), args));
  const Result<volatile uint64_t*> doorbell = device.doorbell(args.doorbell_offset);
  if (!doorbell) {
    destroy_queue(device.kfd_fd(), args.queue_id);
    return doorbell.error();
  }
  return std::unique_ptr<CopyEngine>(
      std::make_unique<SdmaEngine>(device, std::move(ring), std::move(pointers), args.queue_id,
                                   doorbell.value(), link_to_host_has_atomics(device.info())));
}

}  // namespace hsa_rt::kfd
