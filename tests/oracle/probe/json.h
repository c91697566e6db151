// The little JSON the probe writes. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace probe {

inline std::string hex_number(std::uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// Long runs of one byte are written as "00*120".
inline std::string hex_bytes(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kLongRun = 16;
  const bool is_run =
      bytes.size() > kLongRun && std::ranges::all_of(bytes, [&](auto byte) { return byte == bytes[0]; });
  std::string text;
  for (const std::uint8_t byte : is_run ? bytes.first(1) : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  if (is_run) text += "*" + std::to_string(bytes.size());
  return text;
}

inline std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      char escape[7];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

inline void append_member(std::string& members, std::string_view name, std::string_view value) {
  if (!members.empty()) members += ',';
  members += json_string(name);
  members += ':';
  members += value;
}

}  // namespace probe
