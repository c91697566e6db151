#include <cerrno>
#include <cstring>

#include "sim/core/faults/plan.h"

namespace understudy::faults {
namespace {

constexpr int kHighestErrno = 133;

}  // namespace

std::optional<int> errno_by_name(std::string_view name) {
  if (name == "EWOULDBLOCK") return EWOULDBLOCK;
  if (name == "ENOTSUP") return ENOTSUP;
  for (int number = 1; number <= kHighestErrno; ++number) {
    const char* known = ::strerrorname_np(number);
    if (known != nullptr && name == known) return number;
  }
  return std::nullopt;
}

}  // namespace understudy::faults
