// AQL queues of GPUs: memory, signals and error reports around the driver's queue.
#include <algorithm>

#include "runtime/core/queue.h"

namespace hsa_rt {
namespace {

constexpr uint64_t kPacketBytes = 64;

// What stopped a queue, as its packet processor stores it in queue_inactive_signal.
struct InactiveReason {
  uint64_t bits;
  hsa_status_t status;
};
constexpr InactiveReason kInactiveReasons[] = {
    {2, HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS},        // dimensions that the packet may not have
    {4, HSA_STATUS_ERROR_INVALID_ALLOCATION},            // group memory
    {8, HSA_STATUS_ERROR_INVALID_CODE_OBJECT},           // no or impossible code
    {32 | 256, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT},  // unknown packets, the second kind of vendors
    {64, HSA_STATUS_ERROR_INVALID_ARGUMENT},             // work-group too large
    {128, static_cast<hsa_status_t>(HSA_STATUS_ERROR_OUT_OF_REGISTERS)},
    {0x401, HSA_STATUS_ERROR_OUT_OF_RESOURCES},  // scratch memory, which this runtime does not provide
    {0x20000000, kErrorMemoryApertureViolation},
    {0x40000000, kErrorIllegalInstruction},
    {0x80000000, HSA_STATUS_ERROR_EXCEPTION},  // trap
};

// What KFD stores at the error address of the save area: a bit for each exception code of the queue class and
// the device.
constexpr uint64_t exception_bit(unsigned code) {
  return uint64_t{1} << (code - 1);
}
constexpr InactiveReason kExceptions[] = {
    {exception_bit(1) | exception_bit(2) | exception_bit(3),
     HSA_STATUS_ERROR_EXCEPTION},  // abort, trap, math error
    {exception_bit(4), kErrorIllegalInstruction},
    {exception_bit(5), kErrorMemoryFault},
    {exception_bit(6) | exception_bit(33), kErrorMemoryApertureViolation},
    {exception_bit(16), HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS},
    {exception_bit(17), HSA_STATUS_ERROR_INVALID_ALLOCATION},
    {exception_bit(18), HSA_STATUS_ERROR_INVALID_CODE_OBJECT},
    {exception_bit(20) | exception_bit(23), HSA_STATUS_ERROR_INVALID_PACKET_FORMAT},
    {exception_bit(21), HSA_STATUS_ERROR_INVALID_ARGUMENT},
    {exception_bit(22), HSA_STATUS_ERROR_INVALID_ISA},
};

hsa_status_t status_for(std::span<const InactiveReason> reasons, hsa_signal_value_t value) {
  for (const InactiveReason& reason : reasons) {
    if ((static_cast<uint64_t>(value) & reason.bits) != 0) return reason.status;
  }
  return HSA_STATUS_ERROR;
}

// Tells the user once, whichever of the two reports comes first. Outlives the queue in the handlers that hold
// it.
class ErrorReport {
 public:
  ErrorReport(QueueErrorCallback callback, void* data) : callback_(callback), data_(data) {}

  void deliver(hsa_status_t status) {
    const std::lock_guard guard(lock_);
    if (queue_ == nullptr || delivered_) return;
    delivered_ = true;
    if (callback_ != nullptr) callback_(status, queue_, data_);
  }
  void attach(hsa_queue_t* queue) { queue_ = queue; }
  void detach() {
    const std::lock_guard guard(lock_);
    queue_ = nullptr;
  }

 private:
  const QueueErrorCallback callback_;
  void* const data_;
  std::recursive_mutex lock_;  // the callback may destroy the queue
  hsa_queue_t* queue_ = nullptr;
  bool delivered_ = false;
};

class GpuQueue final : public Queue {
 public:
  GpuQueue(const QueueParts& parts, Agent& agent, std::unique_ptr<BackedRange> descriptor,
           std::unique_ptr<BackedRange> ring, std::shared_ptr<ErrorReport> errors)
      : Queue(&agent, std::move(descriptor)),
        parts_(parts),
        ring_(std::move(ring)),
        errors_(std::move(errors)) {}

  ~GpuQueue() override {
    errors_->detach();
    hardware_.reset();
    // Handlers waiting on these see a value that no hardware writes and go.
    for (const std::shared_ptr<Signal>& signal : {inactive_, exception_}) {
      if (signal == nullptr) continue;
      signal->store(kQueueGone, std::memory_order_release);
      parts_.signals.forget(signal->handle());
    }
    if (doorbell_ != nullptr) parts_.signals.forget(doorbell_->handle());
  }

  Status<void> start(const QueueRequest& request) {
    inactive_ = TRY(parts_.signals.create(0, true));
    exception_ = TRY(parts_.signals.create(0, true));
    watch(inactive_, kInactiveReasons);
    watch(exception_, kExceptions);
    write_invalid_packets(ring_->data(), request.packet_count);

    AqlQueueRequest hardware;
    hardware.ring_address = ring_->span().base;
    hardware.ring_bytes = static_cast<uint32_t>(request.packet_count * kPacketBytes);
    hardware.read_index_address = reinterpret_cast<uint64_t>(&amd_queue().read_dispatch_id);
    hardware.write_index_address = reinterpret_cast<uint64_t>(&amd_queue().write_dispatch_id);
    hardware.error_reason_address = reinterpret_cast<uint64_t>(&exception_->slot().amd.value);
    hardware.error_event_id = exception_->slot().amd.event_id;
    amd_queue().queue_inactive_signal = inactive_->handle();
    hardware_ = TRY(agent()->device().create_aql_queue(hardware).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    doorbell_ = TRY(parts_.signals.create_doorbell(hardware_->doorbell()));
    doorbell_->slot().amd.queue_ptr = &amd_queue();

    const DeviceInfo& info = agent()->info();
    amd_queue().max_cu_id = info.compute_units - 1;
    amd_queue().max_wave_id = info.max_waves_per_cu - 1;
    hsa_queue_t& view = *handle();
    view.type = static_cast<hsa_queue_type_t>(request.type);
    view.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    view.base_address = ring_->data();
    view.doorbell_signal = doorbell_->handle();
    view.size = request.packet_count;
    view.id = next_queue_id();
    errors_->attach(handle());
    mask_.assign((info.compute_units + 31) / 32, ~0u);
    if (info.compute_units % 32 != 0) mask_.back() = (1u << info.compute_units % 32) - 1;
    return {};
  }

  Status<void> inactivate() override {
    errors_->detach();
    return or_status(hardware_->inactivate());
  }

  Status<void> set_priority(QueuePriority priority) override {
    return or_status(hardware_->set_priority(priority));
  }

  Status<void> set_cu_mask(std::span<const uint32_t> mask) override {
    std::vector<uint32_t> wanted(mask_.size(), mask.empty() ? ~0u : 0u);
    std::copy_n(mask.begin(), std::min(mask.size(), wanted.size()), wanted.begin());
    if (const uint32_t rest = agent()->info().compute_units % 32; rest != 0)
      wanted.back() &= (1u << rest) - 1;
    if (std::ranges::all_of(wanted, [](uint32_t word) { return word == 0; }))
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    TRY(hardware_->set_cu_mask(wanted).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    mask_ = std::move(wanted);
    return {};
  }

  Status<std::vector<uint32_t>> cu_mask() const override { return mask_; }
  uint64_t doorbell_id() const override { return reinterpret_cast<uint64_t>(hardware_->doorbell()); }

 private:
  static constexpr hsa_signal_value_t kQueueGone = INT64_MIN;

  void watch(const std::shared_ptr<Signal>& signal, std::span<const InactiveReason> reasons) {
    parts_.events.add_handler(signal, HSA_SIGNAL_CONDITION_NE, 0,
                              [errors = errors_, reasons](hsa_signal_value_t value) {
                                if (value != kQueueGone) errors->deliver(status_for(reasons, value));
                                return false;
                              });
  }

  const QueueParts& parts_;
  const std::unique_ptr<BackedRange> ring_;
  const std::shared_ptr<ErrorReport> errors_;
  std::shared_ptr<Signal> inactive_;
  std::shared_ptr<Signal> exception_;
  std::shared_ptr<Signal> doorbell_;
  std::unique_ptr<AqlQueue> hardware_;
  std::vector<uint32_t> mask_;
};

}  // namespace

Status<std::shared_ptr<Queue>> make_gpu_queue(const QueueParts& parts, Agent& agent,
                                              const QueueRequest& request) {
  auto descriptor = TRY(
      allocate_shared_pages(parts, &agent, sizeof(amd_queue_t)).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  auto ring = TRY(allocate_shared_pages(parts, &agent, request.packet_count * kPacketBytes)
                      .error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  auto queue =
      std::make_shared<GpuQueue>(parts, agent, std::move(descriptor), std::move(ring),
                                 std::make_shared<ErrorReport>(request.callback, request.callback_data));
  TRY(queue->start(request));
  return std::shared_ptr<Queue>(std::move(queue));
}

}  // namespace hsa_rt
