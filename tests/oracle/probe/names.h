// Names for values that legitimately differ between runs: the first time seen is "time#1", the next other one "time#2".
// The same value keeps its name, so that equality stays visible.
//
// Owner: one context (a process or thread of a sequence; a fork copies it). Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace probe {

class Names {
 public:
  // JSON of `value` in `name_class`. Zero and all ones mean "none" in every interface compared, so they stay
  // literal. Descriptors are told apart by production, not by number: the lowest free number depends on what
  // the process holds.
  std::string of(const std::string& name_class, std::uint64_t value, std::size_t width) {
    const std::uint64_t all_ones = width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width)) - 1;
    if (value == 0) return "0";
    if (value == all_ones) return "-1";
    auto& known = known_[name_class];
    if (name_class == "fd" || name_class == "va") return quoted(name_class, ++known[0]);
    const auto [entry, is_new] = known.try_emplace(value, known.size() + 1);
    return quoted(name_class, entry->second);
  }

 private:
  static std::string quoted(const std::string& name_class, std::size_t index) {
    return '"' + name_class + '#' + std::to_string(index) + '"';
  }
  std::map<std::string, std::map<std::uint64_t, std::size_t>> known_;
};

}  // namespace probe
