// SignalSink: what an engine tells its surroundings: interrupts towards the process's events, and the GPU's
// clock.
//
// Owner: a hardware queue or the runner of an indirect buffer. Units: clock ticks of 10 ns. Errors: none.
// Thread-safety: used by the engine's thread. Mirrors: the IH ring's CP_END_OF_PIPE and SDMA_TRAP entries.
#pragma once

#include <cstdint>

namespace understudy::kfd::engine {

class SignalSink {
 public:
  virtual ~SignalSink() = default;
  virtual void interrupt(std::uint32_t event_id) = 0;
  virtual std::uint64_t clock_counter() const = 0;
  // A packet would start waves that nothing executes: leave it out (and count it) instead of stopping there?
  virtual bool skip_dispatch() { return false; }
};

}  // namespace understudy::kfd::engine
