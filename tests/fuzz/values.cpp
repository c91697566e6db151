#include "tests/fuzz/values.h"

#include <algorithm>
#include <cstring>

namespace understudy::fuzz {
namespace {

// A stretch of scratch memory that one pointer chooses.
constexpr std::uint64_t kPointerStep = 256;

template <typename Visit>
void for_each_element(const uapi::FieldDescriptor& field, std::size_t size_bytes, Visit visit) {
  const std::uint32_t step = std::max(field.element_size, 1u);
  const std::uint32_t count =
      field.is_array && field.count == 0
          ? static_cast<std::uint32_t>((size_bytes - std::min<std::size_t>(field.offset, size_bytes)) / step)
          : field.count;
  for (std::uint32_t index = 0; index < count; ++index) {
    const std::size_t offset = field.offset + std::size_t{index} * step;
    if (offset + step > size_bytes) return;
    visit(offset);
  }
}

}  // namespace

std::uint64_t Values::pointer(Input& input) {
  const std::uint8_t choice = input.byte();
  if (choice < 0xf0) return arena_.scratch(choice * kPointerStep);
  if (choice < 0xf8) return arena_.slot(choice % Arena::kSlots);
  if (choice < 0xfc) return arena_.base() + Arena::kBytes - choice % 16;  // runs out of the arena
  return choice == 0xfc ? 0 : input.number<std::uint64_t>();
}

std::uint64_t Values::value(Input& input) {
  switch (input.pick(8)) {
    case 0:
      return input.byte() % 4;
    case 1:
    case 2:
      return known_[input.pick(std::size(known_))];
    case 3:
      return std::uint64_t{4096} << input.pick(12);
    case 4:
      return input.byte();
    case 5:
      return pointer(input);
    case 6:
      return known_[input.pick(std::size(known_))] + static_cast<std::uint64_t>(input.number<std::int8_t>());
    default:
      return input.byte() % 2 == 0 ? ~std::uint64_t{0} >> input.pick(64) : input.number<std::uint64_t>();
  }
}

std::uint64_t Values::value_of(Input& input, const uapi::FieldDescriptor& field) {
  const std::uint8_t choice = input.byte();
  if (choice == 0) return 0;
  if (field.constants != nullptr && !field.constants->constants.empty() && choice < 0xe0) {
    const auto constants = field.constants->constants;
    std::uint64_t value = constants[input.pick(constants.size())].value;
    if (field.constants->kind == uapi::ConstantSet::Kind::kFlags) {
      for (unsigned more = choice % 4; more > 0; --more)
        value |= constants[input.pick(constants.size())].value;
    }
    return value;
  }
  if (field.kind == uapi::FieldKind::kPointer && choice < 0xf8) return pointer(input);
  return value(input);
}

void Values::fill(Input& input, const uapi::StructDescriptor& type, std::span<std::byte> bytes) {
  for (const uapi::FieldDescriptor& field : type.fields) {
    // The arms of a union: later ones win where the input says so.
    if (field.union_group != 0 && field.arm > 1 && input.byte() % 2 == 0) continue;
    for_each_element(field, bytes.size(), [&](std::size_t offset) {
      if (field.nested != nullptr) {
        fill(input, *field.nested, bytes.subspan(offset, field.element_size));
        return;
      }
      const std::uint64_t value =
          field.kind == uapi::FieldKind::kChars ? input.byte() : value_of(input, field);
      const std::size_t width = std::min<std::size_t>(field.element_size, sizeof value);
      if (field.bit_count == 0) {
        std::memcpy(bytes.data() + offset, &value, width);
        return;
      }
      std::uint64_t unit = 0;
      std::memcpy(&unit, bytes.data() + offset, width);
      unit ^= (value & ((std::uint64_t{1} << field.bit_count) - 1)) << field.bit_offset;
      std::memcpy(bytes.data() + offset, &unit, width);
    });
  }
}

void Values::learn(const uapi::StructDescriptor& type, std::span<const std::byte> before,
                   std::span<const std::byte> after) {
  const std::size_t size = std::min(before.size(), after.size());
  for (const uapi::FieldDescriptor& field : type.fields) {
    for_each_element(field, size, [&](std::size_t offset) {
      if (field.nested != nullptr) {
        learn(*field.nested, before.subspan(offset, field.element_size),
              after.subspan(offset, field.element_size));
        return;
      }
      const std::size_t width = std::min<std::size_t>(field.element_size, 8);
      if (std::memcmp(before.data() + offset, after.data() + offset, width) == 0) return;
      std::uint64_t value = 0;
      std::memcpy(&value, after.data() + offset, width);
      remember(value);
    });
  }
}

}  // namespace understudy::fuzz
