// When: which occurrences of a matching call a fault takes, written as strace writes it.
//
//   "5" the fifth, "5+" the fifth and all later, "5+3" the fifth and every third after it, "2..9" second to
//   ninth, "2..9+3" every third of those. Occurrences count from 1.
// Owner: plain value. Units: occurrences. Errors: parse says nothing for malformed text. Thread-safety:
// immutable.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace understudy::faults {

struct When {
  std::uint64_t first = 1;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t step = 1;

  static std::optional<When> parse(std::string_view text);
  bool takes(std::uint64_t occurrence) const {
    return occurrence >= first && occurrence <= last && (occurrence - first) % step == 0;
  }
};

}  // namespace understudy::faults
