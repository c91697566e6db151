// QueueHost: what the packet processors of a user queue need from the queue around them.
//
// Owner: HardwareQueue implements it. Units: as SignalSink. Errors: in the results. Thread-safety: the
// engine's thread. Mirrors: the parts of CP firmware that talk to the process and the scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/core/hooks.h"
#include "sim/kfd/engine/signal_sink.h"

namespace understudy::kfd::engine {

// Why a queue stopped, as CP firmware tells queue_inactive_signal and as the driver tells its exception
// payload.
enum class QueueError : std::uint8_t {
  kUnsupportedPacket,
  kUnsupportedVendorPacket,
  kReservedPacket,      // a PM4 opcode that does not exist
  kIllegalInstruction,  // a kernel dispatch nobody could execute
};

enum class DispatchResult : std::uint8_t { kDone, kError, kFault };

class QueueHost : public SignalSink {
 public:
  virtual DispatchResult dispatch(std::span<const std::byte, 64> packet) = 0;
  // Timestamps in completion signals are wanted.
  virtual bool profiling_enabled() = 0;
  virtual PointDecision at(FaultPoint point) = 0;
};

}  // namespace understudy::kfd::engine
