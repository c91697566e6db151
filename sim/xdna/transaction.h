// Transaction: interprets a TXN instruction buffer: register writes, polls, DDR patches, DMA tasks,
// completion waits.
//
// Owner: one run per command. Units: bytes and 32-bit words as named. Errors: Verdict says how it ended and
// at which operation. Thread-safety: none. Mirrors: the run-time half of NPU firmware; encoding as mlir-aie's
// TxnEncoding writes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/xdna/ert.h"
#include "sim/xdna/npu_memory.h"
#include "sim/xdna/watchdog.h"

namespace understudy::xdna {

struct Verdict {
  enum class Kind : std::uint8_t {
    kCompleted,
    kError,        // malformed stream or an access outside the context's memory
    kStopped,      // the watchdog ended it
    kUnsupported,  // waits for something only AIE cores (or an unknown design) can do
  };
  Kind kind = Kind::kCompleted;
  std::uint32_t operation_index = 0xffffffff;
};

struct TransactionLimits {
  unsigned first_column = 0;
  unsigned column_count = 0;
  unsigned row_count = 0;
};

Verdict run_transaction(std::span<const std::byte> instructions, const Invocation& invocation,
                        const NpuMemory& memory, const TransactionLimits& limits, Watchdog& watchdog,
                        bool pass_through);

// A PDI made for this simulator: a design whose shim channels are wired MM2S -> S2MM, column by column.
inline constexpr char kPassThroughPdiMagic[] = "UNDERSTUDY PASS-THROUGH";
bool is_pass_through_pdi(std::span<const std::byte> pdi);

}  // namespace understudy::xdna
