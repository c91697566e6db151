#include "sim/kfd/engine/aql.h"

namespace understudy::kfd::engine {

void Aql::set_ring(const AqlRing& ring, std::uint64_t read_index) {
  ring_ = ring;
  read_index_ = read_index;
  write_index_ = read_index;
  fetched_ = false;
  in_indirect_buffer_ = false;
}

std::optional<bool> Aql::fetch() {
  if (fetched_) return true;
  if (read_index_ >= write_index_) {
    const auto write_index = memory_.load<std::uint64_t>(ring_.write_index_address);
    if (!write_index) return std::nullopt;
    write_index_ = *write_index;
    if (read_index_ >= write_index_) return false;
  }
  if (!memory_.read(packet_address(), packet_)) return std::nullopt;
  // The producer has reserved the slot but not filled it; its doorbell will follow.
  if (AqlPacket(packet_).type() == AqlType::kInvalid) return false;
  fetched_ = true;
  start_ticks_ = host_.clock_counter();
  return true;
}

RunStatus Aql::run(Budget& budget) {
  if (ring_.packets == 0) return RunStatus::kIdle;
  while (!budget.empty()) {
    const auto available = fetch();
    if (!available) return RunStatus::kFault;
    if (!*available) return RunStatus::kIdle;
    budget.spend(Budget::kPacketCost);
    switch (execute(budget)) {
      case Step::kDone:
        if (!retire()) return RunStatus::kFault;
        break;
      case Step::kWait:
        return RunStatus::kWaiting;
      case Step::kYield:
        return RunStatus::kYield;
      case Step::kFault:
        return RunStatus::kFault;
      case Step::kError:
        return RunStatus::kBadPacket;
    }
  }
  return RunStatus::kYield;
}

Aql::Step Aql::fail(QueueError error) {
  error_ = error;
  return Step::kError;
}

Aql::Step Aql::execute(Budget& budget) {
  const AqlPacket packet(packet_);
  switch (packet.type()) {
    case AqlType::kVendorSpecific:
      return execute_vendor(packet, budget);
    case AqlType::kBarrierAnd:
      return barrier(packet, /*all=*/true);
    case AqlType::kBarrierOr:
      return barrier(packet, /*all=*/false);
    case AqlType::kKernelDispatch:
      switch (host_.dispatch(packet_)) {
        case DispatchResult::kDone:
          return Step::kDone;
        case DispatchResult::kError:
          return fail(QueueError::kIllegalInstruction);
        case DispatchResult::kFault:
          return Step::kFault;
      }
      break;
    case AqlType::kAgentDispatch:
    case AqlType::kInvalid:
      break;
  }
  return fail(QueueError::kUnsupportedPacket);
}

Aql::Step Aql::execute_vendor(const AqlPacket& packet, Budget& budget) {
  switch (packet.vendor_format()) {
    case AqlVendorFormat::kPm4IndirectBuffer:
      return indirect_buffer(packet, budget);
    case AqlVendorFormat::kBarrierValue:
      return barrier_value(packet);
  }
  return fail(QueueError::kUnsupportedVendorPacket);
}

// Absent signals hold for AND; OR without any signal holds too.
Aql::Step Aql::barrier(const AqlPacket& packet, bool all) {
  bool any_present = false;
  for (unsigned index = 0; index < AqlPacket::kDependencies; ++index) {
    const std::uint64_t signal = packet.dependency(index);
    if (signal == 0) continue;
    any_present = true;
    const auto value = memory_.load<std::int64_t>(signal + signal_layout::kValue);
    if (!value) return Step::kFault;
    if (all && *value != 0) return Step::kWait;
    if (!all && *value == 0) return Step::kDone;
  }
  return all || !any_present ? Step::kDone : Step::kWait;
}

Aql::Step Aql::barrier_value(const AqlPacket& packet) {
  enum Condition : std::uint32_t { kEqual = 0, kNotEqual = 1, kLess = 2, kGreaterOrEqual = 3 };
  const auto loaded = memory_.load<std::int64_t>(packet.value_signal() + signal_layout::kValue);
  if (!loaded) return Step::kFault;
  const std::int64_t value = *loaded & packet.value_mask();
  bool holds = false;
  switch (packet.value_condition()) {
    case kEqual:
      holds = value == packet.value();
      break;
    case kNotEqual:
      holds = value != packet.value();
      break;
    case kLess:
      holds = value < packet.value();
      break;
    case kGreaterOrEqual:
      holds = value >= packet.value();
      break;
    default:
      return fail(QueueError::kUnsupportedVendorPacket);
  }
  return holds ? Step::kDone : Step::kWait;
}

Aql::Step Aql::indirect_buffer(const AqlPacket& packet, Budget& budget) {
  if (!in_indirect_buffer_) {
    pm4_.set_indirect_buffer(packet.buffer_address(), packet.buffer_size_dw());
    in_indirect_buffer_ = true;
  }
  const RunStatus status = pm4_.run(packet.buffer_size_dw(), budget);
  switch (status) {
    case RunStatus::kIdle:
      in_indirect_buffer_ = false;
      return Step::kDone;
    case RunStatus::kWaiting:
      return Step::kWait;
    case RunStatus::kYield:
      return Step::kYield;
    case RunStatus::kFault:
      return Step::kFault;
    case RunStatus::kDispatch:
      return fail(QueueError::kIllegalInstruction);
    case RunStatus::kBadPacket:
      break;
  }
  return fail(QueueError::kReservedPacket);
}

// The slot is free and the read index moves before anybody is told.
bool Aql::retire() {
  const std::uint64_t completion = AqlPacket(packet_).completion_signal();
  if (!memory_.store(packet_address(), AqlPacket::kInvalidHeader)) return false;
  ++read_index_;
  fetched_ = false;
  if (!memory_.store(ring_.read_index_address, read_index_)) return false;
  if (completion == 0) return true;
  switch (host_.at(FaultPoint::kCompletion)) {
    case PointDecision::kDrop:
      return true;
    case PointDecision::kDuplicate:
      return send_completion(completion) && send_completion(completion);
    default:
      return send_completion(completion);
  }
}

bool Aql::send_completion(std::uint64_t signal) {
  if (host_.profiling_enabled()) {
    if (!memory_.store(signal + signal_layout::kStartTimestamp, start_ticks_)) return false;
    if (!memory_.store(signal + signal_layout::kEndTimestamp, host_.clock_counter())) return false;
  }
  const auto decrement = [](std::uint64_t value) { return value - 1; };
  return memory_.exchange_with<std::uint64_t>(signal + signal_layout::kValue, decrement) && notify(signal);
}

bool Aql::set_signal(std::uint64_t signal, std::uint64_t value) {
  return memory_.store(signal + signal_layout::kValue, value) && notify(signal);
}

// Signals without a mailbox are polled by whoever waits.
bool Aql::notify(std::uint64_t signal) {
  const auto mailbox = memory_.load<std::uint64_t>(signal + signal_layout::kMailbox);
  const auto event_id = memory_.load<std::uint32_t>(signal + signal_layout::kEventId);
  if (!mailbox || !event_id) return false;
  if (*mailbox == 0) return true;
  if (!memory_.store(*mailbox, std::uint64_t{*event_id})) return false;
  host_.interrupt(*event_id);
  return true;
}

}  // namespace understudy::kfd::engine
