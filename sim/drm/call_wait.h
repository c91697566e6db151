// CallWait: a call that sleeps until something happens, a deadline passes or a signal comes; whichever is
// first answers it.
//
// Owner: the callbacks that may end it. Units: absolute ns of CLOCK_MONOTONIC. Errors: EINTR when a signal
// comes. Thread-safety: all methods from any thread; outcomes are made without locks.
// Mirrors: schedule_timeout() in state TASK_INTERRUPTIBLE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/clock.h"

namespace understudy::drm {

class CallWait : public std::enable_shared_from_this<CallWait> {
 public:
  using MakeOutcome = std::function<Outcome()>;

  explicit CallWait(Call& call) : call_(call.shared_from_this()) {}

  // Takes effect at once when the deadline has passed or the signal has come. No deadline: waits for ever.
  void arm(std::optional<std::uint64_t> deadline_ns, MakeOutcome at_deadline);
  // Runs when the wait is over, at once when it already is: where callbacks are taken back.
  void on_end(std::function<void()> clean_up);
  bool ended() const;
  // The first one calls make_outcome and answers.
  void end(const MakeOutcome& make_outcome);

 private:
  const CallRef call_;
  mutable std::mutex mutex_;
  bool ended_ = false;                            // guarded by mutex_
  Clock::TimerId timer_ = 0;                      // guarded by mutex_
  std::vector<std::function<void()>> clean_ups_;  // guarded by mutex_
};

}  // namespace understudy::drm
