// The TC atomics of SDMA's ATOMIC and PM4's ATOMIC_MEM packets.
//
// Owner: stateless. Units: none. Errors: nothing is returned for an operation no TC has, or after a fault
// (see AddressSpace::fault). Thread-safety: as AddressSpace. Mirrors: the TC_OP numbers of the register
// headers.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/kfd/engine/address_space.h"

namespace understudy::kfd::engine {

struct AtomicOperation {
  std::uint32_t tc_op = 0;  // TC_OP_ATOMIC_*, 7 bits
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
};

bool is_known_atomic(std::uint32_t tc_op);
bool is_compare_and_swap(std::uint32_t tc_op);
bool is_64_bit_atomic(std::uint32_t tc_op);
// The old value.
std::optional<std::uint64_t> run_atomic(AddressSpace& memory, std::uint64_t address,
                                        const AtomicOperation& operation);

}  // namespace understudy::kfd::engine
