// Waiting for fences inside an ioctl, with a deadline and signals.
//
// Owner: the call keeps itself alive. Units: absolute ns of CLOCK_MONOTONIC; with bit 63 set: for ever.
// Errors: EINTR when a signal comes; the deadline is not an error here, the caller's `ended` decides.
// Thread-safety: any thread. Mirrors: dma_fence_wait_timeout, dma_fence_wait_any_timeout, with
// amdgpu_gem.c: amdgpu_gem_timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/core/call.h"
#include "sim/drm/fence.h"

namespace understudy::drm {

// `ended(signalled)` fills in the call's struct and says how the ioctl ends; it runs once unless a signal
// comes first. A null fence counts as signalled.
Outcome wait_for_fence(Call& call, const FenceRef& fence, std::uint64_t deadline_ns,
                       std::function<Outcome(bool signalled)> ended);

// Until one of them has signalled: `ended` gets its index, or nothing at the deadline.
Outcome wait_for_any_fence(Call& call, const std::vector<FenceRef>& fences, std::uint64_t deadline_ns,
                           std::function<Outcome(std::optional<std::size_t> first)> ended);

}  // namespace understudy::drm
