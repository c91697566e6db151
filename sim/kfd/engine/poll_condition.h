// The comparisons of SDMA's POLL_REGMEM and PM4's WAIT_REG_MEM.
//
// Owner: stateless. Units/Errors: none. Thread-safety: pure. Mirrors: the `func`/`function` fields of both
// packets.
#pragma once

#include <cstdint>

namespace understudy::kfd::engine {

template <typename T>
constexpr bool poll_condition_holds(std::uint32_t function, T value, T reference) {
  switch (function) {
    case 1:
      return value < reference;
    case 2:
      return value <= reference;
    case 3:
      return value == reference;
    case 4:
      return value != reference;
    case 5:
      return value >= reference;
    case 6:
      return value > reference;
    default:
      return true;
  }
}

}  // namespace understudy::kfd::engine
