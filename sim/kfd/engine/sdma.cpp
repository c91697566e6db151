#include "sim/kfd/engine/sdma.h"

#include <algorithm>

#include "sim/kfd/engine/memory_atomics.h"
#include "sim/kfd/engine/poll_condition.h"
#include "sim/kfd/profile.h"

namespace understudy::kfd::engine {
namespace {

enum Opcode : std::uint32_t {
  kNop = 0,
  kCopy = 1,
  kWrite = 2,
  kIndirect = 4,
  kFence = 5,
  kTrap = 6,
  kPollRegmem = 8,
  kConditional = 9,
  kAtomic = 10,
  kConstantFill = 11,
  kTimestamp = 13,
  kRegisterWrite = 14,
  kPreExecute = 15,
  kCacheControl = 17,
};
enum CopyKind : std::uint32_t { kLinear = 0, kWindow = 4 };

constexpr std::uint32_t kBroadcastBit = 1u << 27;
constexpr std::uint32_t kCompressionBit = 1u << 19;  // generation 7: an eighth dword follows
constexpr std::uint32_t kPollMemoryBit = 1u << 31;
constexpr std::uint32_t kWriteCountMask = 0xfffff;
constexpr std::uint32_t kIndirectSizeMask = 0xfffff;
constexpr std::uint32_t kEventIdMask = 0xfffffff;
constexpr std::uint32_t kTimestampSet = 0;

std::uint32_t opcode(std::uint32_t header) {
  return header & 0xff;
}
std::uint32_t sub_opcode(std::uint32_t header) {
  return header >> 8 & 0xff;
}

// One side of a sub-window copy: a corner in a pitched volume.
struct Window {
  std::uint64_t base = 0;
  std::uint64_t x = 0, y = 0, z = 0;
  std::uint64_t pitch = 0, slice_pitch = 0;  // elements
  unsigned element_shift = 0;

  std::uint64_t row(std::uint64_t row_y, std::uint64_t row_z) const {
    return base + (((z + row_z) * slice_pitch + (y + row_y) * pitch + x) << element_shift);
  }
};

}  // namespace

SdmaDialect SdmaDialect::of(const GpuProfile& profile) {
  const std::uint64_t version = profile.property("gfx_target_version");
  SdmaDialect dialect;
  // 4.4 (gfx90a, gfx94x) and everything since gfx10.3 counts with 30 bits.
  if (version == 90010 || (version >= 90400 && version < 100000) || version >= 100300)
    dialect.count_mask = 0x3fffffff;
  dialect.wide_windows = profile.sdma_major >= 7;
  return dialect;
}

std::optional<std::uint64_t> Sdma::length_dw(const Packet& packet) const {
  const std::uint32_t header = packet.dw[0];
  switch (opcode(header)) {
    case kNop:
      return 1 + (header >> 16 & 0x3fff);
    case kCopy:
      if (sub_opcode(header) == kLinear) {
        if (header & kBroadcastBit) return 9;
        return dialect_.wide_windows && (header & kCompressionBit) ? 8 : 7;
      }
      if (sub_opcode(header) == kWindow) return 13;
      return std::nullopt;
    case kWrite:
      if (sub_opcode(header) != kLinear) return std::nullopt;
      return 4 + (packet.dw[3] & kWriteCountMask) + 1;
    case kIndirect:
      return 6;
    case kFence:
      return 4;
    case kTrap:
      return 2;
    case kPollRegmem:
      return 6;
    case kConditional:
      return 5;
    case kAtomic:
      return 8;
    case kConstantFill:
      return 5;
    case kTimestamp:
      return 3;
    case kRegisterWrite:
      return 3;
    case kPreExecute:
      return 2;
    case kCacheControl:
      return 5;
  }
  return std::nullopt;
}

Sdma::Step Sdma::execute(const Packet& packet, Budget& budget) {
  const std::uint32_t header = packet.dw[0];
  switch (opcode(header)) {
    case kCopy:
      return sub_opcode(header) == kWindow ? copy_window(packet, budget) : copy_linear(packet, budget);
    case kWrite:
      return copy_payload(packet.address(1), 4, (packet.dw[3] & kWriteCountMask) + 1) ? Step::kNext
                                                                                      : Step::kFault;
    case kIndirect:
      return enter_indirect_buffer(packet.address(1), packet.dw[3] & kIndirectSizeMask) ? Step::kNext
                                                                                        : Step::kBadPacket;
    case kFence:
      return memory().store(packet.address(1), packet.dw[3]) ? Step::kNext : Step::kFault;
    case kTrap:
      signals_.interrupt(packet.dw[1] & kEventIdMask);
      return Step::kNext;
    case kPollRegmem:
      return poll(packet);
    case kConditional:
      return conditional(packet);
    case kAtomic:
      return atomic(packet);
    case kConstantFill:
      return constant_fill(packet, budget);
    case kTimestamp:
      return timestamp(packet);
    case kNop:
    case kRegisterWrite:
    case kPreExecute:
    case kCacheControl:
      return Step::kNext;
  }
  return Step::kBadPacket;
}

Sdma::Step Sdma::copy_linear(const Packet& packet, Budget& budget) {
  const std::uint64_t size_bytes = (packet.dw[1] & dialect_.count_mask) + std::uint64_t{1};
  const std::uint64_t bytes = std::min(size_bytes - progress, std::max<std::uint64_t>(budget.left(), 4096));
  const std::uint64_t from = packet.address(3) + progress;
  if (!memory().copy(packet.address(5) + progress, from, bytes)) return Step::kFault;
  if ((packet.dw[0] & kBroadcastBit) && !memory().copy(packet.address(7) + progress, from, bytes))
    return Step::kFault;
  budget.spend(bytes);
  progress += bytes;
  return progress == size_bytes ? Step::kNext : Step::kMore;
}

Sdma::Step Sdma::copy_window(const Packet& packet, Budget& budget) {
  const bool wide = dialect_.wide_windows;
  const auto& dw = packet.dw;
  const std::uint32_t corner_mask = wide ? 0xffff : 0x3fff;
  const std::uint32_t z_mask = wide ? 0x3fff : 0x7ff;
  const auto window = [&](unsigned first) {
    Window side;
    side.element_shift = dw[0] >> 29;
    side.base = packet.address(first);
    side.x = dw[first + 2] & corner_mask;
    side.y = dw[first + 2] >> 16 & corner_mask;
    side.z = dw[first + 3] & z_mask;
    side.pitch = std::uint64_t{wide ? dw[first + 3] >> 16 : dw[first + 3] >> 13} + 1;
    side.slice_pitch = std::uint64_t{wide ? dw[first + 4] : dw[first + 4] & 0xfffffff} + 1;
    return side;
  };
  const Window from = window(1), to = window(6);
  const std::uint64_t row_bytes = ((dw[11] & corner_mask) + std::uint64_t{1}) << from.element_shift;
  const std::uint64_t rows = (dw[11] >> 16 & corner_mask) + std::uint64_t{1};
  const std::uint64_t slices = (dw[12] & z_mask) + std::uint64_t{1};
  // `progress` counts rows.
  while (progress < rows * slices) {
    if (budget.empty()) return Step::kMore;
    const std::uint64_t y = progress % rows, z = progress / rows;
    if (!memory().copy(to.row(y, z), from.row(y, z), row_bytes)) return Step::kFault;
    budget.spend(row_bytes + Budget::kPacketCost);
    ++progress;
  }
  return Step::kNext;
}

// The pattern is 1, 2 or 4 bytes wide; the count leaves out the last element.
Sdma::Step Sdma::constant_fill(const Packet& packet, Budget& budget) {
  const unsigned width_shift = std::min(packet.dw[0] >> 30, 2u);
  const std::uint64_t width = std::uint64_t{1} << width_shift;
  const std::uint64_t size_bytes = (packet.dw[4] & dialect_.count_mask & ~(width - 1)) + width;
  const std::uint64_t bytes =
      std::min(size_bytes - progress, std::max<std::uint64_t>(budget.left() & ~std::uint64_t{3}, 4096));
  const auto pattern = std::as_bytes(std::span(&packet.dw[3], 1)).first(width);
  if (!memory().fill(packet.address(1) + progress, bytes, pattern)) return Step::kFault;
  budget.spend(bytes);
  progress += bytes;
  return progress == size_bytes ? Step::kNext : Step::kMore;
}

// Polls of registers are HDP flushes, which are done when they are asked for.
Sdma::Step Sdma::poll(const Packet& packet) {
  const auto& dw = packet.dw;
  if (!(dw[0] & kPollMemoryBit)) return Step::kNext;
  const auto value = memory().load<std::uint32_t>(packet.address(1));
  if (!value) return Step::kFault;
  return poll_condition_holds(dw[0] >> 28 & 7, *value & dw[4], dw[3]) ? Step::kNext : Step::kWait;
}

Sdma::Step Sdma::atomic(const Packet& packet) {
  const AtomicOperation operation{packet.dw[0] >> 25, packet.address(3), packet.address(5)};
  if (!is_known_atomic(operation.tc_op)) return Step::kBadPacket;
  const bool loop = (packet.dw[0] >> 16 & 1) != 0 && is_compare_and_swap(operation.tc_op);
  const auto old_value = run_atomic(memory(), packet.address(1), operation);
  if (!old_value) return Step::kFault;
  return loop && *old_value != operation.compare ? Step::kWait : Step::kNext;
}

Sdma::Step Sdma::timestamp(const Packet& packet) {
  if (sub_opcode(packet.dw[0]) == kTimestampSet) return Step::kNext;
  return memory().store(packet.address(1), signals_.clock_counter()) ? Step::kNext : Step::kFault;
}

// The dwords after the packet count only when memory holds the reference.
Sdma::Step Sdma::conditional(const Packet& packet) {
  const auto value = memory().load<std::uint32_t>(packet.address(1));
  if (!value) return Step::kFault;
  if (*value != packet.dw[3]) skip(packet.dw[4] & 0x3fff);
  return Step::kNext;
}

}  // namespace understudy::kfd::engine
