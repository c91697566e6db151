// Command packets of the embedded runtime (ERT), as the kernel driver reads them from a command buffer.
//
// Mirrors: include/uapi of the packet header in drivers/accel/amdxdna/amdxdna_ctx.h.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/driver/queues.h"

namespace hsa_rt::xdna {

constexpr uint32_t kOpcodeStartCu = 0;
constexpr uint32_t kOpcodeCommandChain = 19;
constexpr uint32_t kMaxPacketWords = 0x7ff;  // what the count field can say

// Word 0: state in bits 3..0, count of the words that follow in 22..12, opcode in 27..23.
constexpr uint32_t packet_header(uint32_t opcode, uint32_t word_count) {
  return static_cast<uint32_t>(CommandState::kNew) | word_count << 12 | opcode << 23;
}
constexpr CommandState packet_state(uint32_t header) {
  return static_cast<CommandState>(header & 0xf);
}

// What follows word 0 of a chain.
struct CommandChain {
  uint32_t command_count;
  uint32_t submit_index;
  uint32_t error_index;
  uint32_t reserved[3];
  // then command_count 64-bit buffer handles
};
static_assert(sizeof(CommandChain) == 24);

// The payload of START_CU: transaction opcode (2 words), instruction address (2), instruction count (1), then
// two words of address for each operand and, for the runtime's own use, one word of size for each.
struct StartCuPayload {
  static constexpr size_t kInstructionAddress = 2;
  static constexpr size_t kInstructionCount = 4;
  static constexpr size_t kFirstOperand = 5;

  // A packet's word count stands for three words each of instructions and operands.
  static constexpr size_t operand_count(size_t word_count) {
    return word_count / 3 == 0 ? 0 : word_count / 3 - 1;
  }
  static constexpr uint64_t address_at(std::span<const uint32_t> words, size_t index) {
    return words[index] | static_cast<uint64_t>(words[index + 1]) << 32;
  }
};

// The kernel copies each command of a chain into a slot of one page that all of them share.
constexpr size_t kChainPageBytes = 4096;
constexpr size_t start_cu_slot_bytes(size_t word_count) {
  return 8 + word_count * sizeof(uint32_t);
}

}  // namespace hsa_rt::xdna
