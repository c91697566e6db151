#include "sim/kfd/engine/hardware_queue.h"

#include <algorithm>

#include "sim/kfd/gpu.h"
#include "uapi/kfd.h"

namespace understudy::kfd::engine {
namespace {

// What one turn may move before the other queues of the GPU get theirs.
constexpr std::uint64_t kTurnBytes = 2 * 1024 * 1024;
// No index a producer ever writes: even the first packet's doorbell (0) is a change.
constexpr std::uint64_t kNeverRung = ~std::uint64_t{0};
constexpr const char* kNode = "kfd";

// Header of the context save area (kfd_ioctl.h: kfd_context_save_area_header).
constexpr std::uint64_t kErrorPayloadPointer = 24;
constexpr std::uint64_t kErrorEventId = 32;

// queue_inactive_signal's value and the driver's exception code (EC_QUEUE_*).
struct ErrorCodes {
  std::uint64_t inactive_signal;
  std::uint32_t exception;
};
ErrorCodes codes_of(QueueError error) {
  switch (error) {
    case QueueError::kUnsupportedPacket:
      return {0x20, uapi::kfd::EC_QUEUE_PACKET_UNSUPPORTED};
    case QueueError::kUnsupportedVendorPacket:
      return {0x100, uapi::kfd::EC_QUEUE_PACKET_VENDOR_UNSUPPORTED};
    case QueueError::kReservedPacket:
      return {0x20, uapi::kfd::EC_QUEUE_PACKET_RESERVED};
    case QueueError::kIllegalInstruction:
      break;
  }
  return {0x4000'0000, uapi::kfd::EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION};
}

}  // namespace

Result<std::shared_ptr<HardwareQueue>> HardwareQueue::create(QueueSetup setup) {
  const std::span<std::byte> doorbells = TRY(setup.doorbells->bytes());
  auto* const doorbell = reinterpret_cast<std::uint64_t*>(doorbells.data()) + setup.doorbell;
  return std::shared_ptr<HardwareQueue>(new HardwareQueue(std::move(setup), doorbell));
}

HardwareQueue::HardwareQueue(QueueSetup setup, std::uint64_t* doorbell)
    : setup_(std::move(setup)),
      doorbell_(doorbell),
      pointer_units_per_dw_(setup_.properties.is_sdma() ? 4 : 1),
      memory_(*setup_.gpu, setup_.vm, setup_.svm, setup_.client, setup_.xnack_enabled),
      properties_(setup_.properties) {
  QueueHost& host = *this;
  if (properties_.is_sdma()) {
    stream_ = std::make_unique<Sdma>(memory_, host, SdmaDialect::of(setup_.gpu->profile()));
  } else if (properties_.format == QueueFormat::kPm4) {
    stream_ = std::make_unique<Pm4>(memory_, host);
  } else {
    aql_ = std::make_unique<Aql>(memory_, host);
    last_doorbell_ = kNeverRung;
  }
  std::atomic_ref(*doorbell_).store(last_doorbell_);
  point_at_ring();
}

HardwareQueue::~HardwareQueue() = default;

void HardwareQueue::point_at_ring() {
  if (aql_) {
    const AqlRing ring{properties_.ring_address, properties_.ring_size_bytes / AqlPacket::kBytes,
                       properties_.read_pointer_address, properties_.write_pointer_address};
    aql_->set_ring(ring, aql_->read_index());
  } else {
    stream_->set_ring(properties_.ring_address, properties_.ring_size_bytes / 4, stream_->position_dw());
  }
}

HardwareQueue::Turn HardwareQueue::turn() {
  if (stopped_.load(std::memory_order_relaxed)) return Turn::kIdle;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || stopped_ || paused_ || !properties_.is_active()) return Turn::kIdle;
  const std::uint64_t doorbell = std::atomic_ref(*doorbell_).load(std::memory_order_acquire);
  if (doorbell == last_doorbell_ && !unfinished_) return Turn::kIdle;
  if (at(FaultPoint::kQueueProgress) == PointDecision::kStick) {
    stopped_ = true;
    return Turn::kIdle;
  }
  last_doorbell_ = doorbell;
  Budget budget(kTurnBytes);
  const RunStatus status = aql_ ? aql_->run(budget) : run_stream(doorbell, budget);
  unfinished_ = status == RunStatus::kYield || status == RunStatus::kWaiting;
  switch (status) {
    case RunStatus::kIdle:
    case RunStatus::kYield:
      return Turn::kProgress;
    case RunStatus::kWaiting:
      // Packets before the one that waits count as progress: they may be what another queue waits for.
      return budget.left() + Budget::kPacketCost < kTurnBytes ? Turn::kProgress : Turn::kWaiting;
    case RunStatus::kFault:
      stopped_ = true;
      setup_.on_fault(*memory_.fault());
      return Turn::kProgress;
    case RunStatus::kDispatch:
      fail(QueueError::kIllegalInstruction);
      return Turn::kProgress;
    case RunStatus::kBadPacket:
      break;
  }
  fail(aql_ ? aql_->error() : QueueError::kReservedPacket);
  return Turn::kProgress;
}

RunStatus HardwareQueue::run_stream(std::uint64_t doorbell, Budget& budget) {
  const std::uint64_t end_dw = doorbell / pointer_units_per_dw_;
  if (end_dw - stream_->position_dw() > properties_.ring_size_bytes / 4) return RunStatus::kBadPacket;
  const RunStatus status = stream_->run(end_dw, budget);
  const std::uint64_t read_pointer = stream_->position_dw() * pointer_units_per_dw_;
  if (!memory_.store(properties_.read_pointer_address, read_pointer)) return RunStatus::kFault;
  return status;
}

void HardwareQueue::interrupt(std::uint32_t event_id) {
  switch (at(FaultPoint::kInterrupt)) {
    case PointDecision::kDrop:
      return;
    case PointDecision::kDuplicate:
      setup_.events->interrupt(event_id);
      break;
    default:
      break;
  }
  setup_.events->interrupt(event_id);
}

std::uint64_t HardwareQueue::clock_counter() const {
  return setup_.gpu->clock_counter();
}

PointDecision HardwareQueue::at(FaultPoint point) {
  return setup_.machine->hooks().at(point, kNode, setup_.client.get());
}

DispatchResult HardwareQueue::dispatch(std::span<const std::byte, 64> packet) {
  if (setup_.plugin != nullptr) {
    const auto result = setup_.plugin->dispatch(setup_.gpu->profile(), memory_, packet);
    if (memory_.fault()) return DispatchResult::kFault;
    if (result == UNDERSTUDY_DISPATCH_EXECUTED) return DispatchResult::kDone;
    if (result == UNDERSTUDY_DISPATCH_FAILED) return DispatchResult::kError;
  }
  return skip_dispatch() ? DispatchResult::kDone : DispatchResult::kError;
}

bool HardwareQueue::skip_dispatch() {
  if (setup_.machine->settings().dispatch != DispatchPolicy::kSkip) return false;
  ++skipped_dispatches_;
  return true;
}

std::uint64_t HardwareQueue::amd_queue_address() const {
  constexpr std::uint64_t kDistance = queue_layout::kReadDispatchId - queue_layout::kWriteDispatchId;
  if (properties_.read_pointer_address - properties_.write_pointer_address != kDistance) return 0;
  return properties_.write_pointer_address - queue_layout::kWriteDispatchId;
}

bool HardwareQueue::profiling_enabled() {
  const std::uint64_t queue = amd_queue_address();
  if (queue == 0) return false;
  const auto properties = memory_.load<std::uint32_t>(queue + queue_layout::kProperties);
  if (!properties) memory_.clear_fault();
  return properties && (*properties & queue_layout::kPropertyEnableProfiling);
}

// Both ways a runtime learns of it: the driver's exception payload, named in the context save area, and the
// inactive signal of an AQL queue.
void HardwareQueue::fail(QueueError error) {
  stopped_ = true;
  const ErrorCodes codes = codes_of(error);
  ClientMemory& client = setup_.client->memory();
  if (!properties_.is_sdma() && properties_.context_save_address != 0) {
    const std::uint64_t header = properties_.context_save_address;
    const auto payload = client.read_value<std::uint64_t>(header + kErrorPayloadPointer);
    const auto event_id = client.read_value<std::uint32_t>(header + kErrorEventId);
    if (payload && event_id && payload.value() != 0) {
      (void)client.write_value(payload.value(), std::uint64_t{1} << (codes.exception - 1));
      setup_.events->set_from_device(event_id.value());
    }
  }
  const std::uint64_t queue = amd_queue_address();
  if (!aql_ || queue == 0) return;
  const auto signal = memory_.load<std::uint64_t>(queue + queue_layout::kInactiveSignal);
  if (signal && *signal != 0) (void)aql_->set_signal(*signal, codes.inactive_signal);
}

void HardwareQueue::update(const QueueProperties& properties) {
  const std::lock_guard lock(mutex_);
  const bool moved = properties.ring_address != properties_.ring_address ||
                     properties.ring_size_bytes != properties_.ring_size_bytes;
  properties_ = properties;
  if (moved) point_at_ring();
}

void HardwareQueue::set_paused(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
}

void HardwareQueue::stop() {
  stopped_ = true;
}

void HardwareQueue::retire() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  report_skipped();
}

void HardwareQueue::report_skipped() {
  const std::uint64_t skipped = std::exchange(skipped_dispatches_, 0);
  if (skipped == 0) return;
  Finding finding;
  finding.kind = FindingKind::kSkippedWork;
  finding.text =
      setup_.label + ": " + std::to_string(skipped) + " kernel dispatches were skipped, not executed";
  finding.actor.client_id = setup_.client->id();
  finding.actor.pid = setup_.client->pid();
  finding.actor.process = setup_.client->name();
  setup_.machine->ledger().report(std::move(finding));
}

}  // namespace understudy::kfd::engine
