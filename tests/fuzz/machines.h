// Machines to fuzz: small ones (64 MiB of everything), their time in the fuzzer's hand.
//
// Owner: the target, one machine per input; profiles are read once. Units: bytes. Errors: a machine that
// cannot be put together aborts. Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/machine.h"

namespace understudy::fuzz {

struct FuzzMachine {
  std::unique_ptr<Machine> machine;
  ManualClock* clock = nullptr;
};

// `variant` chooses flavours.
FuzzMachine gpu_machine(std::uint8_t variant);
FuzzMachine npu_machine(std::uint8_t variant);
FuzzMachine virtio_machine(std::uint8_t variant);
// What runs a guest: KFD with one GPU.
std::shared_ptr<Machine> host_machine();

// As sysfs tells the client.
std::vector<std::uint64_t> gpu_ids(Machine& machine);

}  // namespace understudy::fuzz
