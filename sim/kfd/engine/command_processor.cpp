#include "sim/kfd/engine/command_processor.h"

#include <algorithm>

namespace understudy::kfd::engine {

void CommandProcessor::set_ring(std::uint64_t address, std::uint64_t size_dw, std::uint64_t position_dw) {
  frames_.assign(1, Frame{address, size_dw, position_dw, position_dw});
  progress = 0;
}

void CommandProcessor::set_indirect_buffer(std::uint64_t address, std::uint64_t size_dw) {
  frames_.assign(1, Frame{address, size_dw, 0, size_dw});
  progress = 0;
}

template <typename Visit>
bool CommandProcessor::for_each_part(const Frame& frame, std::uint64_t position_dw, std::uint64_t count_dw,
                                     Visit visit) {
  while (count_dw > 0) {
    const std::uint64_t offset_dw = position_dw % frame.size_dw;
    const std::uint64_t part_dw = std::min(count_dw, frame.size_dw - offset_dw);
    if (!visit(frame.address + offset_dw * 4, part_dw * 4)) return false;
    position_dw += part_dw;
    count_dw -= part_dw;
  }
  return true;
}

bool CommandProcessor::fetch(const Frame& frame, Packet& packet) {
  packet.available_dw = frame.end_dw - frame.position_dw;
  const std::uint64_t head_dw = std::min<std::uint64_t>(packet.available_dw, kHeadDwords);
  std::span<std::byte> into = std::as_writable_bytes(std::span(packet.dw));
  return for_each_part(frame, frame.position_dw, head_dw, [&](std::uint64_t address, std::uint64_t bytes) {
    if (!memory_.read(address, into.first(bytes))) return false;
    into = into.subspan(bytes);
    return true;
  });
}

bool CommandProcessor::copy_payload(std::uint64_t to, std::uint64_t first_dw, std::uint64_t count_dw) {
  const Frame& frame = frames_.back();
  return for_each_part(frame, frame.position_dw + first_dw, count_dw,
                       [&](std::uint64_t address, std::uint64_t bytes) {
                         if (!memory_.copy(to, address, bytes)) return false;
                         to += bytes;
                         return true;
                       });
}

bool CommandProcessor::enter_indirect_buffer(std::uint64_t address, std::uint64_t size_dw) {
  if (frames_.size() > kMaxIndirection) return false;
  entered_ = Frame{address, size_dw, 0, size_dw};
  return true;
}

RunStatus CommandProcessor::run(std::uint64_t end_dw, Budget& budget) {
  if (frames_.empty() || frames_.front().size_dw == 0) return RunStatus::kIdle;
  frames_.front().end_dw = end_dw;
  while (!budget.empty()) {
    while (frames_.size() > 1 && frames_.back().position_dw >= frames_.back().end_dw) frames_.pop_back();
    Frame& frame = frames_.back();
    if (frame.position_dw >= frame.end_dw) return RunStatus::kIdle;

    Packet packet;
    if (!fetch(frame, packet)) return RunStatus::kFault;
    const auto length = length_dw(packet);
    if (!length) return RunStatus::kBadPacket;
    if (*length > packet.available_dw) {
      // In a ring the rest may come with the next doorbell; a buffer that ends inside a packet is broken.
      return frames_.size() == 1 && frame.size_dw >= *length ? RunStatus::kIdle : RunStatus::kBadPacket;
    }
    entered_.reset();
    skip_dw_ = 0;
    budget.spend(Budget::kPacketCost);
    switch (execute(packet, budget)) {
      case Step::kNext:
        break;
      case Step::kWait:
        return RunStatus::kWaiting;
      case Step::kMore:
        continue;
      case Step::kFault:
        return RunStatus::kFault;
      case Step::kBadPacket:
        return RunStatus::kBadPacket;
      case Step::kDispatch:
        return RunStatus::kDispatch;
    }
    progress = 0;
    ++packet_count_;
    frame.position_dw = std::min(frame.end_dw, frame.position_dw + *length + skip_dw_);
    if (entered_) frames_.push_back(*entered_);
  }
  return RunStatus::kYield;
}

}  // namespace understudy::kfd::engine
