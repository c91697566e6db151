// Waiting for conditions on signals: a short spin, then sleep in the driver (signals with events) or on the
// bell.
#pragma once

#include <hsa/hsa.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/signal.h"

namespace hsa_rt {

struct SignalCondition {
  Signal* signal = nullptr;
  hsa_signal_condition_t condition = HSA_SIGNAL_CONDITION_EQ;
  hsa_signal_value_t reference = 0;

  bool holds(hsa_signal_value_t value) const;
};

constexpr uint64_t kWaitForever = UINT64_MAX;

// Sleeps until one of the signals may have changed. The signals must stay alive. arm() starts a round:
// changes after it are not missed by the sleep() that follows.
class SignalSleeper {
 public:
  // `driver_events` are waited for as well; what they report is left in them.
  SignalSleeper(SignalPool& pool, std::span<const SignalCondition> conditions,
                std::span<EventWait> driver_events = {});
  ~SignalSleeper();
  SignalSleeper(const SignalSleeper&) = delete;
  SignalSleeper& operator=(const SignalSleeper&) = delete;

  void arm();
  void sleep(uint64_t timeout_ns);

 private:
  SignalPool& pool_;
  const std::span<const SignalCondition> conditions_;
  const std::span<EventWait> driver_events_;
  std::vector<EventWait> waits_;  // those of the signals, then driver_events_
  bool needs_bell_ = false;
  uint32_t epoch_ = 0;
};

// The position of the first condition that holds and the value that made it hold; nothing on timeout.
struct Satisfied {
  size_t index = 0;
  hsa_signal_value_t value = 0;
};
std::optional<Satisfied> wait_any(SignalPool& pool, std::span<const SignalCondition> conditions,
                                  uint64_t timeout_ns);

// True once every condition has been seen to hold; values[i] is what made condition i hold (or was seen
// last).
bool wait_all(SignalPool& pool, std::span<const SignalCondition> conditions, uint64_t timeout_ns,
              std::span<hsa_signal_value_t> values);

uint64_t now_ns();

}  // namespace hsa_rt
