// Hardware queues and contexts as the core sees them. A driver makes them (Device::create_...), owns what the
// hardware needs beside the ring (EOP buffers, save areas, doorbell pages), and gives it all back in the
// destructor, after the kernel has confirmed that the queue is gone.
//
// Addresses are process virtual addresses that the device can reach. Thread-safety is stated per class.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "runtime/base/expected.h"

namespace hsa_rt {

enum class QueuePriority : uint8_t { kLow, kNormal, kHigh };

struct AqlQueueRequest {
  uint64_t ring_address = 0;  // page-aligned, mapped to the device as one piece of exactly ring_bytes
  uint32_t ring_bytes = 0;    // a power of two
  uint64_t read_index_address = 0;
  uint64_t write_index_address =
      0;  // both indices inside one page, mapped to the device as exactly that page
  uint64_t error_reason_address = 0;  // where the packet processor stores why it stopped
  uint32_t error_event_id = 0;
};

// A user-mode AQL queue. The doorbell may be written by any thread; the rest needs the owner's order.
class AqlQueue {
 public:
  virtual ~AqlQueue() = default;
  virtual uint64_t id() const = 0;
  virtual volatile uint64_t* doorbell() const = 0;
  virtual Result<void> set_priority(QueuePriority priority) = 0;
  // One bit per compute unit; `mask` has a multiple of 32 bits.
  virtual Result<void> set_cu_mask(std::span<const uint32_t> mask) = 0;
  virtual Result<void> inactivate() = 0;
};

// Where a device reports that a job is done: value -= 1, then the mailbox and its event.
struct CompletionTarget {
  uint64_t value_address = 0;
  uint64_t mailbox_address = 0;  // 0: nobody sleeps on this signal
  uint32_t event_id = 0;
  uint64_t start_timestamp_address = 0;  // both 32-byte aligned; 0: no timestamps wanted
  uint64_t end_timestamp_address = 0;
};

struct CopySegment {
  uint64_t destination = 0;
  uint64_t source = 0;
  uint64_t size_bytes = 0;
};

// Copies the segments, or fills [destination, destination + size) of each with a repeated dword (sizes then
// are multiples of 4). Starts when all values waited for are zero.
struct CopyJob {
  std::span<const CopySegment> segments;
  std::optional<uint32_t> fill_value;
  std::span<const uint64_t> wait_for_zero;  // addresses of 64-bit signal values
  CompletionTarget completion;
};

// A copy engine's ring. Thread-safe.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  virtual Result<void> submit(const CopyJob& job) = 0;
};

enum class CommandState : uint8_t {
  kNew = 1,
  kQueued = 2,
  kRunning = 3,
  kCompleted = 4,
  kError = 5,
  kAbort = 6,
  kSubmitted = 7,
  kTimeout = 8,
  kNoResponse = 9,
};

// One NPU command as the embedded runtime takes it. `words` starts after the header word: no CU mask.
struct NpuCommand {
  uint32_t opcode = 0;
  uint64_t configuration_address = 0;  // the PDI that must be loaded; 0: what is loaded
  std::span<const uint32_t> words;
};

// A hardware context of an NPU. Needs the owner's order.
class CommandContext {
 public:
  virtual ~CommandContext() = default;
  // Runs the commands in order and waits; states receives how each ended. ETIME when the device did not
  // answer.
  virtual Result<void> run(std::span<const NpuCommand> commands, std::span<CommandState> states) = 0;
};

}  // namespace hsa_rt
