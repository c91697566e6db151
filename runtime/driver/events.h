// Interrupt-driven waiting, for drivers that have it (KFD). An event is what a device raises when it writes
// an event id to a mailbox; waiting sleeps in the kernel. All calls may come from any thread.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/expected.h"

namespace hsa_rt {

class Device;

enum class EventKind : uint8_t { kSignal, kMemoryFault, kHardwareException };

struct Event {
  uint32_t id = 0;
  uint64_t mailbox_address = 0;  // kSignal only
};

struct MemoryFault {
  Device* device = nullptr;
  uint64_t address = 0;
  bool not_present = false;
  bool read_only = false;
  bool no_execute = false;
  bool imprecise = false;
  uint32_t ecc_type = 0;  // 0 none, 1 SRAM ECC, 2 poison, 3 GPU hang
};

struct HardwareException {
  Device* device = nullptr;
  bool memory_lost = false;
  bool caused_by_ecc = false;
};

struct EventWait {
  uint32_t id = 0;
  EventKind kind = EventKind::kSignal;
  uint64_t age = 1;   // kSignal: how often it had been set when last looked at, counted by the kernel from 1
  MemoryFault fault;  // filled when a kMemoryFault event fired
  HardwareException exception;  // filled when a kHardwareException event fired
};

enum class WaitOutcome : uint8_t { kFired, kTimeout, kDestroyed };

class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual Result<Event> create_event(EventKind kind, bool auto_reset) = 0;
  virtual Result<void> destroy_event(const Event& event) = 0;
  virtual Result<void> set_event(const Event& event) = 0;
  // Sleeps until one of the events fires; `timeout_ms` UINT32_MAX waits for ever.
  virtual Result<WaitOutcome> wait_any(std::span<EventWait> events, uint32_t timeout_ms) = 0;
};

}  // namespace hsa_rt
