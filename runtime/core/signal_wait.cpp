#include "runtime/core/signal_wait.h"

#include <time.h>

#include <algorithm>

namespace hsa_rt {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kSpinNs = 20'000;
// Where a change might not wake the sleeper, it looks again after this time.
constexpr uint32_t kLookAgainMs = 2;
constexpr uint64_t kLookAgainNs = kLookAgainMs * kNsPerMs;

uint64_t deadline_after(uint64_t timeout_ns) {
  uint64_t deadline = 0;
  return __builtin_add_overflow(now_ns(), timeout_ns, &deadline) ? kWaitForever : deadline;
}

uint64_t remaining_ns(uint64_t deadline) {
  if (deadline == kWaitForever) return kWaitForever;
  const uint64_t now = now_ns();
  return deadline > now ? deadline - now : 0;
}

// Calls `done` until it returns true (then true) or time is up (then false).
template <class Done>
bool wait_until(SignalPool& pool, std::span<const SignalCondition> conditions, uint64_t timeout_ns,
                Done done) {
  if (done()) return true;
  if (timeout_ns == 0) return false;
  const uint64_t deadline = deadline_after(timeout_ns);
  const uint64_t spin_until = std::min(deadline, deadline_after(kSpinNs));
  while (now_ns() < spin_until) {
    if (done()) return true;
    __builtin_ia32_pause();
  }
  SignalSleeper sleeper(pool, conditions);
  for (;;) {
    sleeper.arm();
    if (done()) return true;
    const uint64_t left = remaining_ns(deadline);
    if (left == 0) return false;
    sleeper.sleep(left);
  }
}

}  // namespace

uint64_t now_ns() {
  struct timespec now {};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool SignalCondition::holds(hsa_signal_value_t value) const {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == reference;
    case HSA_SIGNAL_CONDITION_NE:
      return value != reference;
    case HSA_SIGNAL_CONDITION_LT:
      return value < reference;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= reference;
  }
  return false;
}

SignalSleeper::SignalSleeper(SignalPool& pool, std::span<const SignalCondition> conditions,
                             std::span<EventWait> driver_events)
    : pool_(pool), conditions_(conditions), driver_events_(driver_events) {
  for (const SignalCondition& condition : conditions_) {
    if (const std::optional<Event>& event = condition.signal->event()) {
      EventWait wait;
      wait.id = event->id;
      waits_.push_back(wait);
    } else {
      needs_bell_ = true;
    }
  }
  waits_.insert(waits_.end(), driver_events.begin(), driver_events.end());
  for (const SignalCondition& condition : conditions_) condition.signal->begin_waiting();
  if (needs_bell_) pool_.bell().prepare();
}

SignalSleeper::~SignalSleeper() {
  if (needs_bell_) pool_.bell().finish();
  for (const SignalCondition& condition : conditions_) condition.signal->end_waiting();
}

void SignalSleeper::arm() {
  epoch_ = pool_.bell().epoch();
}

void SignalSleeper::sleep(uint64_t timeout_ns) {
  if (waits_.empty()) {
    // A device changes signals without ringing the bell.
    pool_.bell().sleep(epoch_, pool_.devices_write() ? std::min(timeout_ns, kLookAgainNs) : timeout_ns);
    return;
  }
  uint32_t timeout_ms = UINT32_MAX;
  if (timeout_ns != kWaitForever) {
    timeout_ms =
        static_cast<uint32_t>(std::min<uint64_t>((timeout_ns + kNsPerMs - 1) / kNsPerMs, UINT32_MAX - 1));
  }
  // Nobody can sleep in two places.
  if (needs_bell_) timeout_ms = std::min(timeout_ms, kLookAgainMs);
  const Result<WaitOutcome> outcome = pool_.events()->wait_any(waits_, timeout_ms);
  if (!outcome || outcome.value() == WaitOutcome::kDestroyed) {
    pool_.bell().sleep(epoch_, std::min(timeout_ns, kLookAgainNs));
    return;
  }
  std::copy(waits_.end() - static_cast<std::ptrdiff_t>(driver_events_.size()), waits_.end(),
            driver_events_.begin());
}

std::optional<Satisfied> wait_any(SignalPool& pool, std::span<const SignalCondition> conditions,
                                  uint64_t timeout_ns) {
  std::optional<Satisfied> satisfied;
  wait_until(pool, conditions, timeout_ns, [&] {
    for (size_t i = 0; i < conditions.size(); ++i) {
      const hsa_signal_value_t value = conditions[i].signal->load();
      if (!conditions[i].holds(value)) continue;
      satisfied = Satisfied{i, value};
      return true;
    }
    return false;
  });
  return satisfied;
}

bool wait_all(SignalPool& pool, std::span<const SignalCondition> conditions, uint64_t timeout_ns,
              std::span<hsa_signal_value_t> values) {
  std::vector<bool> seen(conditions.size());
  return wait_until(pool, conditions, timeout_ns, [&] {
    bool all = true;
    for (size_t i = 0; i < conditions.size(); ++i) {
      if (seen[i]) continue;
      values[i] = conditions[i].signal->load();
      seen[i] = conditions[i].holds(values[i]);
      all = all && seen[i];
    }
    return all;
  });
}

}  // namespace hsa_rt
