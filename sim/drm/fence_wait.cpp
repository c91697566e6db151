#include "sim/drm/fence_wait.h"

#include <atomic>
#include <memory>

#include "sim/core/machine.h"

namespace understudy::drm {

Outcome wait_for_fence(Call& call, const FenceRef& fence, std::uint64_t deadline_ns,
                       std::function<Outcome(bool signalled)> ended) {
  if (!fence || fence->is_signalled()) return ended(true);
  Clock& clock = call.machine().clock();
  const bool for_ever = static_cast<std::int64_t>(deadline_ns) < 0;
  if (!for_ever && deadline_ns <= clock.now_ns()) return ended(false);

  // Deadline, signal and fence race; the first to raise the flag answers.
  struct Wait {
    std::atomic<bool> over{false};
    std::function<Outcome(bool)> ended;
  };
  auto wait = std::make_shared<Wait>();
  wait->ended = std::move(ended);
  const std::weak_ptr<Call> weak = call.weak_from_this();
  const auto end = [wait, weak](bool signalled) {
    const CallRef waiting = weak.lock();
    if (waiting && !wait->over.exchange(true)) waiting->finish(wait->ended(signalled));
  };
  // The fence's callback keeps the call alive; the others only look.
  fence->on_signal([end, waiting = call.shared_from_this()] { end(true); });
  if (!for_ever) clock.at(deadline_ns, [end, keep = call.shared_from_this()] { end(false); });
  call.on_cancel([wait, weak] {
    const CallRef waiting = weak.lock();
    if (waiting && !wait->over.exchange(true)) waiting->finish(Errno(EINTR));
  });
  return Outcome::later();
}

}  // namespace understudy::drm
