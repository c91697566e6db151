#include "sim/core/faults/when.h"

#include <charconv>

namespace understudy::faults {
namespace {

// Takes a positive number off the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<When> When::parse(std::string_view text) {
  const std::optional<std::uint64_t> first = take_number(text);
  if (!first) return std::nullopt;
  When when{*first, *first, 1};
  const bool is_range = text.starts_with("..");
  if (is_range) {
    text.remove_prefix(2);
    const std::optional<std::uint64_t> last = take_number(text);
    if (!last || *last < *first) return std::nullopt;
    when.last = *last;
  }
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (!is_range) when.last = std::numeric_limits<std::uint64_t>::max();
    if (!text.empty()) {
      const std::optional<std::uint64_t> step = take_number(text);
      if (!step) return std::nullopt;
      when.step = *step;
    } else if (is_range) {
      return std::nullopt;
    }
  }
  if (!text.empty()) return std::nullopt;
  return when;
}

}  // namespace understudy::faults
