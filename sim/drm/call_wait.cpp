#include "sim/drm/call_wait.h"

#include <utility>

#include "sim/core/machine.h"

namespace understudy::drm {

void CallWait::arm(std::optional<std::uint64_t> deadline_ns, MakeOutcome at_deadline) {
  Clock& clock = call_->machine().clock();
  if (deadline_ns && *deadline_ns <= clock.now_ns()) {
    end(at_deadline);
    return;
  }
  const auto self = shared_from_this();
  if (deadline_ns) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    timer_ = clock.at(*deadline_ns, [self, at_deadline = std::move(at_deadline)] { self->end(at_deadline); });
  }
  call_->on_cancel([self] { self->end([] { return Outcome(Errno(EINTR)); }); });
}

void CallWait::on_end(std::function<void()> clean_up) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      clean_ups_.push_back(std::move(clean_up));
      return;
    }
  }
  clean_up();
}

bool CallWait::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void CallWait::end(const MakeOutcome& make_outcome) {
  std::vector<std::function<void()>> clean_ups;
  Clock::TimerId timer = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    clean_ups.swap(clean_ups_);
    timer = timer_;
  }
  if (timer != 0) call_->machine().clock().cancel(timer);
  for (const auto& clean_up : clean_ups) clean_up();
  call_->finish(make_outcome());
}

}  // namespace understudy::drm
