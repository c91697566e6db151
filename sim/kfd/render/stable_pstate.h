// StablePstate: the power state a context has fixed the GPU to, for profiling; one context at a time.
//
// Owner: Gpu. Units: AMDGPU_CTX_STABLE_PSTATE_*. Errors: EBUSY when another context holds it. Thread-safety:
// locks itself. Mirrors: amdgpu_ctx.c: amdgpu_ctx_get_stable_pstate, amdgpu_ctx_set_stable_pstate.
#pragma once

#include <cstdint>
#include <mutex>

#include "sim/core/result.h"

namespace understudy::kfd {

class Context;

class StablePstate {
 public:
  std::uint32_t level() const {
    const std::lock_guard lock(mutex_);
    return level_;
  }
  // Level 0 (NONE) gives it up.
  Result<void> set(const Context& context, std::uint32_t level) {
    const std::lock_guard lock(mutex_);
    if (holder_ != nullptr && holder_ != &context) return Errno(EBUSY);
    level_ = level;
    holder_ = level == 0 ? nullptr : &context;
    return {};
  }
  void context_gone(const Context& context) {
    const std::lock_guard lock(mutex_);
    if (holder_ != &context) return;
    holder_ = nullptr;
    level_ = 0;
  }

 private:
  mutable std::mutex mutex_;
  const Context* holder_ = nullptr;  // guarded by mutex_
  std::uint32_t level_ = 0;          // guarded by mutex_
};

}  // namespace understudy::kfd
