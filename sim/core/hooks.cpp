#include "sim/core/hooks.h"

namespace understudy {

void Hooks::install(std::shared_ptr<FaultHook> fault) {
  const std::lock_guard lock(mutex_);
  fault_.store(fault.get(), std::memory_order_release);
  kept_.push_back(std::move(fault));
}

void Hooks::install(std::shared_ptr<TraceHook> trace) {
  const std::lock_guard lock(mutex_);
  trace_.store(trace.get(), std::memory_order_release);
  kept_.push_back(std::move(trace));
}

}  // namespace understudy
