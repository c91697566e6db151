#include "sim/drm/fence_wait.h"

#include "sim/drm/call_wait.h"

namespace understudy::drm {

Outcome wait_for_any_fence(Call& call, const std::vector<FenceRef>& fences, std::uint64_t deadline_ns,
                           std::function<Outcome(std::optional<std::size_t> first)> ended) {
  for (std::size_t i = 0; i < fences.size(); ++i) {
    if (!fences[i] || fences[i]->is_signalled()) return ended(i);
  }
  const auto wait = std::make_shared<CallWait>(call);
  for (std::size_t i = 0; i < fences.size(); ++i) {
    const Fence::CallbackId id =
        fences[i]->on_signal([wait, ended, i] { wait->end([&] { return ended(i); }); });
    wait->on_end([fence = fences[i], id] { fence->forget(id); });
  }
  const bool for_ever = static_cast<std::int64_t>(deadline_ns) < 0;
  wait->arm(for_ever ? std::nullopt : std::optional(deadline_ns), [ended] { return ended(std::nullopt); });
  return Outcome::later();
}

Outcome wait_for_fence(Call& call, const FenceRef& fence, std::uint64_t deadline_ns,
                       std::function<Outcome(bool signalled)> ended) {
  return wait_for_any_fence(
      call, {fence}, deadline_ns,
      [ended = std::move(ended)](std::optional<std::size_t> first) { return ended(first.has_value()); });
}

}  // namespace understudy::drm
