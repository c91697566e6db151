#include "sim/kfd/engine/memory_atomics.h"

#include <algorithm>
#include <functional>
#include <type_traits>

namespace understudy::kfd::engine {
namespace {

// Bit 6 set: the variant that returns nothing; bit 5: 64 bits wide; the rest says what is done.
constexpr std::uint32_t kWidthBit = 0x20;
constexpr std::uint32_t kActionMask = 0x1f;

enum Action : std::uint32_t {
  kSwap = 7,
  kCompareAndSwap = 8,
  kAdd = 15,
  kSubtract = 16,
  kSignedMin = 17,
  kUnsignedMin = 18,
  kSignedMax = 19,
  kUnsignedMax = 20,
  kAnd = 21,
  kOr = 22,
  kXor = 23,
  kIncrement = 24,
  kDecrement = 25,
};

template <typename T>
T apply(std::uint32_t action, T old_value, T operand, T compare) {
  using Signed = std::make_signed_t<T>;
  switch (action) {
    case kSwap:
      return operand;
    case kCompareAndSwap:
      return old_value == compare ? operand : old_value;
    case kAdd:
      return old_value + operand;
    case kSubtract:
      return old_value - operand;
    case kSignedMin:
      return static_cast<T>(std::min(static_cast<Signed>(old_value), static_cast<Signed>(operand)));
    case kUnsignedMin:
      return std::min(old_value, operand);
    case kSignedMax:
      return static_cast<T>(std::max(static_cast<Signed>(old_value), static_cast<Signed>(operand)));
    case kUnsignedMax:
      return std::max(old_value, operand);
    case kAnd:
      return old_value & operand;
    case kOr:
      return old_value | operand;
    case kXor:
      return old_value ^ operand;
    case kIncrement:
      return old_value >= operand ? 0 : old_value + 1;
    case kDecrement:
      return old_value == 0 || old_value > operand ? operand : old_value - 1;
  }
  return old_value;
}

template <typename T>
std::optional<std::uint64_t> run_as(AddressSpace& memory, std::uint64_t address,
                                    const AtomicOperation& operation) {
  const std::uint32_t action = operation.tc_op & kActionMask;
  const auto operand = static_cast<T>(operation.operand);
  const auto compare = static_cast<T>(operation.compare);
  return memory.exchange_with<T>(address,
                                 [=](T old_value) { return apply<T>(action, old_value, operand, compare); });
}

}  // namespace

bool is_known_atomic(std::uint32_t tc_op) {
  const std::uint32_t action = tc_op & kActionMask;
  return action == kSwap || action == kCompareAndSwap || (action >= kAdd && action <= kDecrement);
}

bool is_compare_and_swap(std::uint32_t tc_op) {
  return (tc_op & kActionMask) == kCompareAndSwap;
}

bool is_64_bit_atomic(std::uint32_t tc_op) {
  return (tc_op & kWidthBit) != 0;
}

std::optional<std::uint64_t> run_atomic(AddressSpace& memory, std::uint64_t address,
                                        const AtomicOperation& operation) {
  return is_64_bit_atomic(operation.tc_op) ? run_as<std::uint64_t>(memory, address, operation)
                                           : run_as<std::uint32_t>(memory, address, operation);
}

}  // namespace understudy::kfd::engine
