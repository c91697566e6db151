// How the program speaks to its user: whole lines on stderr, under one prefix.
//
// Owner: stateless. Errors: a stderr that is gone is ignored. Thread-safety: lines do not mix.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace understudy::cli {

inline void say(std::string_view line) {
  const std::string text = "understudy: " + std::string(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace understudy::cli
