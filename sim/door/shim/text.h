// What std::string_view::starts_with does, without the exception that its substr could throw: the shim has no
// C++ run-time library to throw it.
#pragma once

#include <string.h>

#include <string_view>

namespace understudy::shim {

inline bool begins_with(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() && ::memcmp(text.data(), beginning.data(), beginning.size()) == 0;
}

}  // namespace understudy::shim
