// What a process has locked for devices, against its RLIMIT_MEMLOCK.
//
// Owner: one account for the server; a charge ends with the object that charge_locked_memory returns.
// Units: bytes. Errors: EPERM when the process may lock nothing, E2BIG beyond INT_MAX pages, ENOMEM over the
// limit. Thread-safety: all functions from any thread. Mirrors: mm/util.c: account_locked_vm.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/core/client.h"
#include "sim/core/result.h"

namespace understudy::virtio_gpu {

Result<std::shared_ptr<void>> charge_locked_memory(Client& client, std::uint64_t size_bytes);

}  // namespace understudy::virtio_gpu
