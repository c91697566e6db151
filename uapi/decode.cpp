#include "uapi/decode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace uapi {
namespace {

constexpr std::size_t kShownElements = 16;
constexpr std::size_t kShownCharacters = 64;

std::string number(std::uint64_t value, int base) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, base).ptr;
  return {text.data(), end};
}

std::string decimal(std::int64_t value) {
  const auto magnitude = static_cast<std::uint64_t>(value);
  return value < 0 ? "-" + number(0 - magnitude, 10) : number(magnitude, 10);
}

std::string hex(std::uint64_t value) {
  return value == 0 ? "0" : "0x" + number(value, 16);
}

std::string size_text(std::uint64_t value) {
  constexpr std::array<const char*, 5> kUnits = {"", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (value >= 1024 && value % 1024 == 0 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return number(value, 10) + kUnits[unit];
}

std::string quoted(std::span<const std::byte> bytes) {
  std::string text = "\"";
  const std::size_t shown = std::min(bytes.size(), kShownCharacters);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == 0) return text + '"';
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c >= 0x20 && c < 0x7f) {
      text += static_cast<char>(c);
    } else {
      text += (c < 0x10 ? "\\x0" : "\\x") + number(c, 16);
    }
  }
  return text + (shown < bytes.size() ? "\"..." : "\"");
}

std::uint64_t load(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

std::uint64_t sign_extended(std::uint64_t value, std::size_t size) {
  const unsigned unused_bits = 64 - 8 * static_cast<unsigned>(size);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused_bits) >> unused_bits);
}

bool is_padding(std::string_view name) {
  return name.starts_with("pad") || name.starts_with("_pad") || name.starts_with("reserved") ||
         name.starts_with("Reserved");
}

std::string scalar(const FieldDescriptor& field, std::uint64_t value) {
  if (field.kind == FieldKind::kSigned) value = sign_extended(value, field.element_size);
  if (field.constants != nullptr) return decode(*field.constants, value);
  switch (field.kind) {
    case FieldKind::kSigned:
      return decimal(static_cast<std::int64_t>(value));
    case FieldKind::kPointer:
      return value == 0 ? "NULL" : hex(value);
    case FieldKind::kAddress:
    case FieldKind::kBits:
      return hex(value);
    case FieldKind::kSize:
      return size_text(value);
    default: {
      const std::uint64_t all_ones = field.element_size == 8 ? ~0ull : (1ull << 8 * field.element_size) - 1;
      return value > 0xffffffff || (value == all_ones && field.element_size >= 4) ? hex(value)
                                                                                  : number(value, 10);
    }
  }
}

std::string element(const FieldDescriptor& field, std::span<const std::byte> bytes, Moment moment) {
  if (field.kind == FieldKind::kStruct) return decode(*field.nested, bytes, moment);
  std::uint64_t value = load(bytes);
  if (field.bit_count != 0) value = value >> field.bit_offset & ((1ull << field.bit_count) - 1);
  return scalar(field, value);
}

// `bytes` starts at the field; a flexible array takes all of it.
std::string field_text(const FieldDescriptor& field, std::span<const std::byte> bytes, Moment moment) {
  if (!field.is_array) return element(field, bytes.first(field.element_size), moment);
  const std::size_t count = field.count != 0 ? field.count : bytes.size() / field.element_size;
  if (field.kind == FieldKind::kChars) return quoted(bytes.first(count));
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(count, kShownElements); ++i) {
    if (i != 0) text += ", ";
    text += element(field, bytes.subspan(i * field.element_size, field.element_size), moment);
  }
  return text + (count > kShownElements ? ", ...]" : "]");
}

// Whether the arm that `field` belongs to is the one in use, as far as the bytes tell.
bool is_current_arm(const StructDescriptor& type, const FieldDescriptor& field,
                    std::span<const std::byte> bytes, Moment moment) {
  const std::string_view name = field.name;
  if (type.is_union && name == "in") return moment == Moment::kEntry;
  if (type.is_union && name == "out") return moment == Moment::kExit;
  if (field.union_group != 1 || type.selector == nullptr) return true;
  const FieldDescriptor& selecting = type.fields[type.selector->field];
  if (selecting.offset + selecting.size() > bytes.size()) return false;
  const std::uint64_t value = load(bytes.subspan(selecting.offset, selecting.size()));
  return std::ranges::any_of(type.selector->choices, [&](const ArmSelector::Choice& choice) {
    return choice.value == value && choice.arm == field.arm;
  });
}

}  // namespace

std::string decode(const StructDescriptor& type, std::span<const std::byte> bytes, Moment moment) {
  std::string text = "{";
  const char* separator = "";
  for (const FieldDescriptor& field : type.fields) {
    if (field.offset + std::max(field.size(), field.element_size * (field.count == 0)) > bytes.size())
      continue;
    if (!is_current_arm(type, field, bytes, moment)) continue;
    const auto own =
        field.count == 0 ? bytes.subspan(field.offset) : bytes.subspan(field.offset, field.size());
    if (is_padding(field.name) && std::ranges::all_of(own, [](std::byte b) { return b == std::byte{0}; }))
      continue;
    text += separator;
    text += field.name;
    text += '=';
    text += field_text(field, own, moment);
    separator = ", ";
  }
  return text + '}';
}

std::string decode(const IoctlDescriptor& ioctl, std::span<const std::byte> bytes, Moment moment) {
  if (ioctl.args != nullptr) return decode(*ioctl.args, bytes, moment);
  return ioctl.size == 0 || bytes.size() < ioctl.size ? "" : number(load(bytes.first(ioctl.size)), 10);
}

std::string decode(const ConstantSet& set, std::uint64_t value) {
  const bool flags = set.kind == ConstantSet::Kind::kFlags;
  std::string text;
  std::uint64_t rest = value;
  for (const ConstantDescriptor& constant : set.constants) {
    if (constant.value == value) return constant.name;
    if (!flags || constant.value == 0 || (rest & constant.value) != constant.value) continue;
    text += text.empty() ? "" : "|";
    text += constant.name;
    rest &= ~constant.value;
  }
  if (text.empty()) return flags ? hex(value) : decimal(static_cast<std::int64_t>(value));
  return rest == 0 ? text : text + "|" + hex(rest);
}

const StructDescriptor* find_struct(std::span<const StructDescriptor> structs, std::string_view name) {
  const auto found = std::ranges::find_if(structs, [&](const auto& s) { return s.name == name; });
  return found == structs.end() ? nullptr : &*found;
}

const IoctlDescriptor* find_ioctl(std::span<const IoctlDescriptor> ioctls, std::string_view name) {
  const auto found = std::ranges::find_if(ioctls, [&](const auto& i) { return i.name == name; });
  return found == ioctls.end() ? nullptr : &*found;
}

const IoctlDescriptor* find_ioctl(std::span<const IoctlDescriptor> ioctls, std::uint32_t nr) {
  const auto found = std::ranges::find_if(ioctls, [&](const auto& i) { return i.nr == nr; });
  return found == ioctls.end() ? nullptr : &*found;
}

}  // namespace uapi
