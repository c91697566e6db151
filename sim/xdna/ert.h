// ERT packets: what a command BO holds: one header word, CU masks, payload.
//
// Owner: views over bytes of a command BO; the client may change them at any time, so every reader copies
// first. Units: the header counts 32-bit words, everything here is bytes unless it says words. Errors:
// nullopt for what does not fit. Thread-safety: pure. Mirrors: amdxdna_ctx.h: struct amdxdna_cmd,
// amdxdna_cmd_get_payload, amdxdna_cmd_get_cu_idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace understudy::xdna {

enum class ErtOpcode : std::uint8_t {
  kStartCu = 0,
  kStartDpu = 18,
  kCommandChain = 19,
  kStartNpu = 20,
  kStartNpuPreempt = 21,
  kStartNpuPreemptElf = 22,
};

enum class ErtState : std::uint8_t {
  kNew = 1,
  kQueued = 2,
  kRunning = 3,
  kCompleted = 4,
  kError = 5,
  kAbort = 6,
  kSubmitted = 7,
  kTimeout = 8,
  kNoResponse = 9,
};

struct ErtPacket {
  ErtOpcode opcode{};
  // Index of the CU: lowest set bit of the first non-zero mask word, whatever that word's position.
  std::optional<unsigned> cu_index;
  std::vector<std::byte> payload;
};

inline constexpr std::size_t kErtHeaderBytes = 4;

// Copies the packet out of `command` (the BO's bytes). Empty when the count does not fit the BO or leaves no
// payload.
std::optional<ErtPacket> read_packet(std::span<const std::byte> command);
void write_state(std::span<std::byte> command, ErtState state);

// CMD_CHAIN's payload.
struct ErtChain {
  static constexpr std::size_t kHandlesOffset = 24;
  static constexpr std::size_t kErrorIndexOffset = 8;
  std::uint32_t command_count = 0;
  std::vector<std::uint64_t> handles;
};
std::optional<ErtChain> read_chain(std::span<const std::byte> payload);
void write_chain_error_index(std::span<std::byte> command, std::uint32_t index);

// What the driver leaves in the data area after word 0 of a failed command.
struct HealthRecord {
  std::uint32_t version = 1;
  std::uint32_t npu_generation = 0;
  std::uint32_t txn_op_index = 0xffffffff;
  std::uint32_t context_pc = 0xffffffff;
  std::uint32_t fatal_error_type = 0xffffffff;
  std::uint32_t fatal_error_exception_type = 0xffffffff;
  std::uint32_t fatal_error_exception_pc = 0xffffffff;
  std::uint32_t fatal_error_app_module = 0xffffffff;
};
// 0xff over everything after word 0, then the record as far as it fits.
void write_health(std::span<std::byte> command, const HealthRecord& record);

// Where a started command finds its instructions and host arguments.
struct Invocation {
  std::uint64_t instruction_address = 0;
  std::uint64_t instruction_bytes = 0;
  std::vector<std::uint64_t> arguments;
  // The firmware already added the DDR offset to the first five arguments (instruction-buffer flow).
  bool arguments_pretranslated = false;
};
// nullopt: an opcode that carries no transaction, or a payload too short for it.
std::optional<Invocation> read_invocation(const ErtPacket& packet);

// Bytes a command takes in the 4 KiB internal buffer of its job; nullopt: more than the opcode allows.
std::optional<std::size_t> slot_bytes(const ErtPacket& packet);

}  // namespace understudy::xdna
