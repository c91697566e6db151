#include "sim/xdna/ert.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace understudy::xdna {
namespace {

constexpr std::uint32_t kStateMask = 0xf;
constexpr unsigned kExtraMasksShift = 10;
constexpr unsigned kCountShift = 12;
constexpr unsigned kOpcodeShift = 23;

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Packed, unaligned 64-bit arguments from `offset` to the end.
std::vector<std::uint64_t> load_arguments(std::span<const std::byte> payload, std::size_t offset) {
  std::vector<std::uint64_t> arguments;
  for (; offset + 8 <= payload.size(); offset += 8) arguments.push_back(load<std::uint64_t>(payload, offset));
  return arguments;
}

constexpr std::uint64_t kTransactionKernelOpcode = 3;
constexpr std::size_t kStartCuArguments = 0x14;
constexpr std::size_t kStartNpuArguments = 16;
constexpr std::size_t kStartNpuPreemptArguments = 40;

struct SlotRule {
  ErtOpcode opcode;
  std::size_t header_bytes;
  std::size_t max_argument_words;
};
constexpr SlotRule kSlotRules[] = {
    {ErtOpcode::kStartCu, 8, 1022},           {ErtOpcode::kStartDpu, 24, 34},
    {ErtOpcode::kStartNpu, 52, 26},           {ErtOpcode::kStartNpuPreempt, 52, 26},
    {ErtOpcode::kStartNpuPreemptElf, 52, 26},
};

}  // namespace

std::optional<ErtPacket> read_packet(std::span<const std::byte> command) {
  if (command.size() < kErtHeaderBytes) return std::nullopt;
  const auto header = load<std::uint32_t>(command, 0);
  ErtPacket packet;
  packet.opcode = static_cast<ErtOpcode>((header >> kOpcodeShift) & 0x1f);
  const std::size_t count_words = (header >> kCountShift) & 0x7ff;
  const bool is_chain = packet.opcode == ErtOpcode::kCommandChain;
  const std::size_t mask_words = is_chain ? 0 : 1 + ((header >> kExtraMasksShift) & 0x3);
  if (count_words <= mask_words || kErtHeaderBytes + count_words * 4 > command.size()) return std::nullopt;
  for (std::size_t i = 0; i < mask_words && !packet.cu_index; ++i) {
    const auto mask = load<std::uint32_t>(command, kErtHeaderBytes + i * 4);
    if (mask != 0) packet.cu_index = static_cast<unsigned>(std::countr_zero(mask));
  }
  const auto payload = command.subspan(kErtHeaderBytes + mask_words * 4, (count_words - mask_words) * 4);
  packet.payload.assign(payload.begin(), payload.end());
  return packet;
}

void write_state(std::span<std::byte> command, ErtState state) {
  std::uint32_t header = load<std::uint32_t>(command, 0);
  header = (header & ~kStateMask) | static_cast<std::uint32_t>(state);
  std::memcpy(command.data(), &header, sizeof header);
}

std::optional<ErtChain> read_chain(std::span<const std::byte> payload) {
  if (payload.size() < ErtChain::kHandlesOffset) return std::nullopt;
  ErtChain chain;
  chain.command_count = load<std::uint32_t>(payload, 0);
  if (chain.command_count > (payload.size() - ErtChain::kHandlesOffset) / 8) return std::nullopt;
  for (std::uint32_t i = 0; i < chain.command_count; ++i) {
    chain.handles.push_back(load<std::uint64_t>(payload, ErtChain::kHandlesOffset + i * 8));
  }
  return chain;
}

void write_chain_error_index(std::span<std::byte> command, std::uint32_t index) {
  const std::size_t offset = kErtHeaderBytes + ErtChain::kErrorIndexOffset;
  if (command.size() >= offset + sizeof index) std::memcpy(command.data() + offset, &index, sizeof index);
}

void write_health(std::span<std::byte> command, const HealthRecord& record) {
  const auto data = command.subspan(kErtHeaderBytes);
  std::fill(data.begin(), data.end(), std::byte{0xff});
  std::memcpy(data.data(), &record, std::min(data.size(), sizeof record));
}

std::optional<Invocation> read_invocation(const ErtPacket& packet) {
  const std::span<const std::byte> payload = packet.payload;
  Invocation invocation;
  switch (packet.opcode) {
    case ErtOpcode::kStartCu:
      if (payload.size() < kStartCuArguments || load<std::uint64_t>(payload, 0) != kTransactionKernelOpcode)
        return {};
      invocation.instruction_address = load<std::uint64_t>(payload, 8);
      invocation.instruction_bytes = std::uint64_t{load<std::uint32_t>(payload, 16)} * 4;
      invocation.arguments = load_arguments(payload, kStartCuArguments);
      invocation.arguments_pretranslated = true;
      return invocation;
    case ErtOpcode::kStartNpu:
      if (payload.size() < kStartNpuArguments) return {};
      invocation.instruction_address = load<std::uint64_t>(payload, 0);
      invocation.instruction_bytes = load<std::uint32_t>(payload, 8);
      invocation.arguments = load_arguments(payload, kStartNpuArguments);
      return invocation;
    case ErtOpcode::kStartNpuPreempt:
      if (payload.size() < kStartNpuPreemptArguments) return {};
      invocation.instruction_address = load<std::uint64_t>(payload, 0);
      invocation.instruction_bytes = load<std::uint32_t>(payload, 24);
      invocation.arguments = load_arguments(payload, kStartNpuPreemptArguments);
      return invocation;
    default:
      return {};
  }
}

std::optional<std::size_t> slot_bytes(const ErtPacket& packet) {
  for (const SlotRule& rule : kSlotRules) {
    if (rule.opcode != packet.opcode) continue;
    if (packet.payload.size() > rule.max_argument_words * 4) return std::nullopt;
    return rule.header_bytes + packet.payload.size();
  }
  return std::nullopt;
}

}  // namespace understudy::xdna
