#include "sim/xdna/transaction.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "sim/xdna/shim_dma.h"
#include "sim/xdna/tile_registers.h"

namespace understudy::xdna {
namespace {

enum Opcode : std::uint8_t {
  kWrite = 0,
  kBlockWrite = 1,
  kMaskWrite = 3,
  kMaskPoll = 4,
  kNoop = 5,
  kPreempt = 6,
  kMaskPollBusy = 7,
  kLoadPdi = 8,
  kCreateScratchpad = 10,
  kUpdateRegister = 12,
  kTct = 128,
  kDdrPatch = 129,
};

// Operations from here on carry their size in word 1, so unknown ones can be skipped.
constexpr std::uint8_t kFirstSizedOpcode = 128;
constexpr std::size_t kHeaderWords = 4;
constexpr std::size_t kMaxOperations = 1 << 20;
// Host arguments that firmware translates itself in the instruction-buffer flow.
constexpr std::size_t kPretranslatedArguments = 5;

class Run {
 public:
  Run(std::vector<std::uint32_t> words, const Invocation& invocation, const NpuMemory& memory,
      const TransactionLimits& limits, Watchdog& watchdog, bool pass_through)
      : words_(std::move(words)),
        invocation_(invocation),
        limits_(limits),
        watchdog_(watchdog),
        dma_(registers_, memory, watchdog, pass_through) {}

  Verdict run() {
    if (words_.size() < kHeaderWords) return error(0);
    const std::uint32_t operation_count = words_[2];
    if (words_[3] / 4 > words_.size() || operation_count > kMaxOperations) return error(0);
    words_.resize(words_[3] / 4);
    std::size_t at = kHeaderWords;
    for (std::uint32_t index = 0; index < operation_count; ++index) {
      if (at >= words_.size()) return error(index);
      const std::optional<std::size_t> length = length_words(at);
      if (!length || *length == 0 || *length > words_.size() - at) return error(index);
      switch (step(std::span(words_).subspan(at, *length))) {
        case Step::kDone:
          break;
        case Step::kBad:
          if (watchdog_.stopped()) return {Verdict::Kind::kStopped, index};
          return error(index);
        case Step::kNever:
          return {Verdict::Kind::kUnsupported, index};
      }
      at += *length;
    }
    return {};
  }

 private:
  enum class Step { kDone, kBad, kNever };

  static Verdict error(std::uint32_t index) { return {Verdict::Kind::kError, index}; }

  // Length of the operation at `at`; nothing for an unknown one that cannot be skipped.
  std::optional<std::size_t> length_words(std::size_t at) const {
    const std::uint8_t opcode = words_[at] & 0xff;
    if (opcode >= kFirstSizedOpcode) return at + 1 < words_.size() ? words_[at + 1] / 4 : 0;
    switch (opcode) {
      case kWrite:
        return 6;
      case kBlockWrite:
        return at + 3 < words_.size() ? words_[at + 3] / 4 : 0;
      case kMaskWrite:
      case kMaskPoll:
      case kMaskPollBusy:
        return 7;
      case kNoop:
      case kPreempt:
        return 1;
      case kLoadPdi:
      case kCreateScratchpad:
        return 4;
      case kUpdateRegister:
        return 3;
      default:
        return std::nullopt;
    }
  }

  Step step(std::span<const std::uint32_t> op) {
    switch (op[0] & 0xff) {
      case kWrite:
        return write(address_of(op), op[4]);
      case kMaskWrite: {
        const std::uint64_t address = address_of(op);
        return write(address, (registers_.read(address) & ~op[5]) | (op[4] & op[5]));
      }
      case kBlockWrite:
        return block_write(op);
      case kMaskPoll:
      case kMaskPollBusy:
        return (registers_.read(address_of(op)) & op[5]) == op[4] ? Step::kDone : Step::kNever;
      case kTct:
        return op.size() >= 4 ? wait_tokens(op) : Step::kBad;
      case kDdrPatch:
        return op.size() >= 11 ? patch(op) : Step::kBad;
      case kLoadPdi:
        return Step::kNever;  // another array configuration, which nobody here can load
      default:
        return Step::kDone;
    }
  }

  static std::uint64_t address_of(std::span<const std::uint32_t> op) {
    return op[2] | std::uint64_t{op[3]} << 32;
  }

  Step write(std::uint64_t address, std::uint32_t value) {
    const TileAddress tile = TileAddress::of(address);
    if (tile.column >= limits_.column_count || tile.row >= limits_.row_count) return Step::kBad;
    registers_.write(address, value);
    if (tile.row != 0) return Step::kDone;
    const auto queue = ShimDma::queue_at(tile.offset);
    if (!queue) return Step::kDone;
    return dma_.push(tile.column, *queue, value) ? Step::kDone : Step::kBad;
  }

  Step block_write(std::span<const std::uint32_t> op) {
    if (op.size() < 4) return Step::kBad;
    for (std::size_t i = 4; i < op.size(); ++i) {
      if (const Step done = write(op[2] + (i - 4) * 4, op[i]); done != Step::kDone) return done;
    }
    return Step::kDone;
  }

  Step wait_tokens(std::span<const std::uint32_t> op) {
    const auto direction = (op[2] & 0xff) == 0 ? DmaDirection::kS2mm : DmaDirection::kMm2s;
    const unsigned row = (op[2] >> 8) & 0xff, column = (op[2] >> 16) & 0xff;
    const unsigned rows = (op[3] >> 8) & 0xff, columns = (op[3] >> 16) & 0xff, channel = op[3] >> 24;
    if (row != 0) return Step::kNever;  // tokens of memory and core tiles need their DMA
    for (unsigned c = column; c < column + columns && rows > 0; ++c) {
      if (c >= limits_.column_count) return Step::kBad;
      if (!dma_.take_token(c, {direction, channel})) return Step::kNever;
    }
    return Step::kDone;
  }

  Step patch(std::span<const std::uint32_t> op) {
    const std::uint64_t register_address = op[6];
    const std::size_t argument = op[8];
    if (argument >= invocation_.arguments.size()) return Step::kBad;
    std::uint64_t address = invocation_.arguments[argument] + op[10];
    if (!invocation_.arguments_pretranslated || argument < kPretranslatedArguments)
      address += ShimDma::kDdrOffset;
    if (write(register_address, static_cast<std::uint32_t>(address)) != Step::kDone) return Step::kBad;
    const std::uint32_t high = registers_.read(register_address + 4) & 0xffff0000;
    return write(register_address + 4, high | (static_cast<std::uint32_t>(address >> 32) & 0xffff));
  }

  std::vector<std::uint32_t> words_;
  const Invocation& invocation_;
  const TransactionLimits limits_;
  const Watchdog& watchdog_;
  TileRegisters registers_;
  ShimDma dma_;
};

}  // namespace

Verdict run_transaction(std::span<const std::byte> instructions, const Invocation& invocation,
                        const NpuMemory& memory, const TransactionLimits& limits, Watchdog& watchdog,
                        bool pass_through) {
  std::vector<std::uint32_t> words(instructions.size() / 4);
  if (!words.empty()) std::memcpy(words.data(), instructions.data(), words.size() * 4);
  return Run(std::move(words), invocation, memory, limits, watchdog, pass_through).run();
}

bool is_pass_through_pdi(std::span<const std::byte> pdi) {
  constexpr std::size_t kLength = sizeof kPassThroughPdiMagic - 1;
  return pdi.size() >= kLength && std::memcmp(pdi.data(), kPassThroughPdiMagic, kLength) == 0;
}

}  // namespace understudy::xdna
