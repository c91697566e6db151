// Waiting for one fence inside an ioctl, with a deadline and signals.
//
// Owner: the call keeps itself alive. Units: absolute ns of CLOCK_MONOTONIC; "negative" (bit 63) means for
// ever. Errors: EINTR when a signal comes; the deadline is not an error here, the caller's `ended` decides.
// Thread-safety: any thread. Mirrors: dma_fence_wait_timeout with amdgpu_gem_timeout.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/core/call.h"
#include "sim/drm/fence.h"

namespace understudy::drm {

// `ended(signalled)` fills in the call's struct and says how the ioctl ends; it runs once unless a signal
// comes first.
Outcome wait_for_fence(Call& call, const FenceRef& fence, std::uint64_t deadline_ns,
                       std::function<Outcome(bool signalled)> ended);

}  // namespace understudy::drm
