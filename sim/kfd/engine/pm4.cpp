#include "sim/kfd/engine/pm4.h"

#include <algorithm>

#include "sim/kfd/engine/memory_atomics.h"
#include "sim/kfd/engine/poll_condition.h"

namespace understudy::kfd::engine {
namespace {

enum Opcode : std::uint32_t {
  kNop = 0x10,
  kSetBase = 0x11,
  kClearState = 0x12,
  kDispatchDirect = 0x15,
  kDispatchIndirect = 0x16,
  kAtomicMem = 0x1e,
  kPredicatedExecution = 0x23,
  kContextControl = 0x28,
  kWriteData = 0x37,
  kWaitRegMem = 0x3c,
  kIndirectBuffer = 0x3f,
  kCopyData = 0x40,
  kPfpSyncMe = 0x42,
  kEventWrite = 0x46,
  kReleaseMem = 0x49,
  kDmaData = 0x50,
  kAcquireMem = 0x58,
  kSetConfigReg = 0x68,
  kSetContextReg = 0x69,
  kSetShReg = 0x76,
  kSetUconfigReg = 0x79,
  kWaitRegMem64 = 0x93,
  kSetShRegIndex = 0x9b,
};

constexpr std::uint32_t kType2 = 2, kType3 = 3;
// A NOP of one dword has the largest count there is.
constexpr std::uint32_t kOneDwordNopCount = 0x3fff;
constexpr std::uint64_t kAddressMask = 0xffff'ffff'ffff;

std::uint32_t type(std::uint32_t header) {
  return header >> 30;
}
std::uint32_t opcode(std::uint32_t header) {
  return header >> 8 & 0xff;
}
std::uint32_t field(std::uint32_t dword, unsigned first_bit, unsigned bits) {
  return dword >> first_bit & ((1u << bits) - 1);
}

// How many dwords a packet must have for its fields to be there.
unsigned least_dw(std::uint32_t op) {
  switch (op) {
    case kWriteData:
    case kIndirectBuffer:
      return 4;
    case kWaitRegMem:
    case kDmaData:
    case kReleaseMem:
      return 7;
    case kWaitRegMem64:
    case kAtomicMem:
      return 9;
    case kCopyData:
      return 6;
  }
  return 1;
}

}  // namespace

std::optional<std::uint64_t> Pm4::length_dw(const Packet& packet) const {
  const std::uint32_t header = packet.dw[0];
  if (type(header) == kType2) return 1;
  if (type(header) != kType3) return std::nullopt;
  const std::uint32_t count = field(header, 16, 14);
  if (opcode(header) == kNop && count == kOneDwordNopCount) return 1;
  const std::uint64_t length = count + 2;
  if (length < least_dw(opcode(header))) return std::nullopt;
  return length;
}

Pm4::Step Pm4::execute(const Packet& packet, Budget& budget) {
  const std::uint32_t header = packet.dw[0];
  if (type(header) == kType2) return Step::kNext;
  switch (opcode(header)) {
    case kWriteData:
      return write_data(packet);
    case kReleaseMem:
      return release_mem(packet);
    case kWaitRegMem:
    case kWaitRegMem64:
      return wait_reg_mem(packet);
    case kCopyData:
      return copy_data(packet);
    case kDmaData:
      return dma_data(packet, budget);
    case kAtomicMem:
      return atomic_mem(packet);
    case kIndirectBuffer:
      return enter_indirect_buffer(packet.address(1) & kAddressMask, field(packet.dw[3], 0, 20))
                 ? Step::kNext
                 : Step::kBadPacket;
    case kDispatchDirect:
    case kDispatchIndirect:
      return signals_.skip_dispatch() ? Step::kNext : Step::kDispatch;
    case kPredicatedExecution:  // this is the only virtual device
    case kNop:
    case kSetBase:
    case kClearState:
    case kContextControl:
    case kPfpSyncMe:
    case kEventWrite:
    case kAcquireMem:
    case kSetConfigReg:
    case kSetContextReg:
    case kSetShReg:
    case kSetShRegIndex:
    case kSetUconfigReg:
      return Step::kNext;
  }
  return Step::kBadPacket;
}

Pm4::Step Pm4::write_data(const Packet& packet) {
  constexpr std::uint32_t kTcL2 = 2, kMemory = 5;
  const std::uint32_t destination = field(packet.dw[1], 8, 4);
  if (destination != kTcL2 && destination != kMemory) return Step::kNext;
  const std::uint64_t address = packet.address(2);
  const std::uint64_t count = field(packet.dw[0], 16, 14) + 2 - 4;
  const bool same_address = field(packet.dw[1], 16, 1) != 0;
  if (!same_address) return copy_payload(address, 4, count) ? Step::kNext : Step::kFault;
  for (std::uint64_t index = 0; index < count; ++index) {
    if (!copy_payload(address, 4 + index, 1)) return Step::kFault;
  }
  return Step::kNext;
}

Pm4::Step Pm4::release_mem(const Packet& packet) {
  enum DataSelect : std::uint32_t { kNothing = 0, kLow32 = 1, kAll64 = 2, kClock = 3, kSystemClock = 4 };
  enum InterruptSelect : std::uint32_t { kNone = 0, kAfterWrite = 2 };
  const std::uint64_t address = packet.address(3);
  bool written = true;
  switch (field(packet.dw[2], 29, 3)) {
    case kNothing:
      break;
    case kLow32:
      written = memory().store(address, packet.dw[5]);
      break;
    case kAll64:
      written = memory().store(address, packet.address(5));
      break;
    case kClock:
    case kSystemClock:
      written = memory().store(address, signals_.clock_counter());
      break;
    default:
      return Step::kBadPacket;
  }
  if (!written) return Step::kFault;
  const std::uint32_t interrupt = field(packet.dw[2], 24, 3);
  // 3 confirms the write without telling anybody.
  const bool has_context_id = field(packet.dw[0], 16, 14) + 2 >= 8;  // since gfx9
  if (interrupt != kNone && interrupt <= kAfterWrite) signals_.interrupt(has_context_id ? packet.dw[7] : 0);
  return Step::kNext;
}

Pm4::Step Pm4::wait_reg_mem(const Packet& packet) {
  const std::uint32_t function = field(packet.dw[1], 0, 3);
  const bool in_memory = field(packet.dw[1], 4, 2) == 1;
  if (!in_memory) return Step::kNext;
  if (opcode(packet.dw[0]) == kWaitRegMem64) {
    const auto value = memory().load<std::uint64_t>(packet.address(2));
    if (!value) return Step::kFault;
    const bool holds = poll_condition_holds(function, *value & packet.address(6), packet.address(4));
    return holds ? Step::kNext : Step::kWait;
  }
  const auto value = memory().load<std::uint32_t>(packet.address(2));
  if (!value) return Step::kFault;
  return poll_condition_holds(function, *value & packet.dw[5], packet.dw[4]) ? Step::kNext : Step::kWait;
}

Pm4::Step Pm4::copy_data(const Packet& packet) {
  enum Selector : std::uint32_t { kMemory = 1, kTcL2 = 2, kMemoryAsync = 5, kClock = 9 };
  constexpr std::uint32_t kImmediate = 5;
  const std::uint32_t source = field(packet.dw[1], 0, 4), destination = field(packet.dw[1], 8, 4);
  const std::size_t bytes = field(packet.dw[1], 16, 1) ? 8 : 4;
  std::uint64_t value = 0;
  const auto value_bytes = std::as_writable_bytes(std::span(&value, 1)).first(bytes);
  if (source == kMemory || source == kTcL2) {
    if (!memory().read(packet.address(2), value_bytes)) return Step::kFault;
  } else if (source == kImmediate) {
    value = packet.address(2);
  } else if (source == kClock) {
    value = signals_.clock_counter();
  }
  const bool to_memory = destination == kMemory || destination == kTcL2 || destination == kMemoryAsync;
  if (to_memory && !memory().write(packet.address(4), value_bytes)) return Step::kFault;
  return Step::kNext;
}

Pm4::Step Pm4::dma_data(const Packet& packet, Budget& budget) {
  constexpr std::uint32_t kImmediate = 2;
  const std::uint64_t size_bytes = field(packet.dw[6], 0, 26);
  const std::uint64_t bytes =
      std::min(size_bytes - progress, std::max<std::uint64_t>(budget.left() & ~std::uint64_t{3}, 4096));
  const std::uint64_t to = packet.address(4) + progress;
  const bool fill = field(packet.dw[1], 29, 2) == kImmediate;
  const bool done = fill ? memory().fill(to, bytes, std::as_bytes(std::span(&packet.dw[2], 1)))
                         : memory().copy(to, packet.address(2) + progress, bytes);
  if (!done) return Step::kFault;
  budget.spend(bytes);
  progress += bytes;
  return progress == size_bytes ? Step::kNext : Step::kMore;
}

Pm4::Step Pm4::atomic_mem(const Packet& packet) {
  constexpr std::uint32_t kLoopUntilCompare = 1;
  const AtomicOperation operation{field(packet.dw[1], 0, 7), packet.address(4), packet.address(6)};
  if (!is_known_atomic(operation.tc_op)) return Step::kBadPacket;
  const auto old_value = run_atomic(memory(), packet.address(2), operation);
  if (!old_value) return Step::kFault;
  const bool loop = field(packet.dw[1], 8, 4) == kLoopUntilCompare && is_compare_and_swap(operation.tc_op);
  return loop && *old_value != operation.compare ? Step::kWait : Step::kNext;
}

}  // namespace understudy::kfd::engine
