#include "runtime/core/runtime.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace hsa_rt {
namespace {

std::mutex life_lock;
int32_t reference_count = 0;
std::atomic<Runtime*> the_runtime{nullptr};
Runtime* parents_runtime = nullptr;  // in a forked child: still reachable, never touched

void before_fork() {
  life_lock.lock();
}
void after_fork_in_parent() {
  life_lock.unlock();
}
// The parent's runtime is left alone: its threads do not exist here and its descriptors are not the child's
// to close.
void after_fork_in_child() {
  parents_runtime = the_runtime.exchange(nullptr);
  reference_count = 0;
  life_lock.unlock();
}

void watch_for_forks() {
  static const int registered = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
}

}  // namespace

Runtime* Runtime::current() {
  return the_runtime.load(std::memory_order_acquire);
}

Status<void> Runtime::acquire() {
  watch_for_forks();
  const std::lock_guard guard(life_lock);
  if (reference_count == INT32_MAX) return HSA_STATUS_ERROR_REFCOUNT_OVERFLOW;
  if (reference_count == 0) {
    std::vector<std::shared_ptr<Driver>> drivers =
        TRY(discover_drivers().error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    std::unique_ptr<Runtime> runtime = TRY(create(std::move(drivers)));
    the_runtime.store(runtime.release(), std::memory_order_release);
  }
  ++reference_count;
  return {};
}

Status<void> Runtime::release() {
  const std::lock_guard guard(life_lock);
  if (reference_count == 0) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (--reference_count == 0) {
    const std::unique_ptr<Runtime> last(the_runtime.exchange(nullptr));
  }
  return {};
}

Status<std::unique_ptr<Runtime>> Runtime::create(std::vector<std::shared_ptr<Driver>> drivers) {
  auto runtime = std::make_unique<Runtime>(std::move(drivers));
  TRY(runtime->events_.start());
  return runtime;
}

Runtime::Runtime(std::vector<std::shared_ptr<Driver>> drivers)
    : drivers_(std::move(drivers)),
      agents_(drivers_),
      vmem_(agents_, drivers_),
      allocations_(agents_, drivers_),
      signals_(shared_backing(), shared_access(), event_source()),
      events_(signals_, agents_),
      copies_(signals_, events_, allocations_, vmem_, agents_),
      queues_({signals_, events_, shared_backing(), cpu_access()}),
      ipc_(allocations_) {}

SvmRanges* Runtime::svm() const {
  for (const auto& driver : drivers_) {
    if (SvmRanges* ranges = driver->svm()) return ranges;
  }
  return nullptr;
}

bool Runtime::supports_dmabuf() const {
  for (const auto& driver : drivers_) {
    if (driver->shares_dmabufs() && !driver->devices().empty()) return true;
  }
  return false;
}

// Signals and queues are shared with GPUs only.
Device& Runtime::shared_backing() {
  for (Agent& agent : agents_.agents()) {
    if (agent.kind() == DeviceKind::kGpu) return agent.device();
  }
  return agents_.agents().front().device();
}

std::vector<AccessRequest> Runtime::cpu_access() {
  std::vector<AccessRequest> access;
  for (Agent& agent : agents_.agents()) {
    if (agent.kind() == DeviceKind::kCpu) access.push_back({&agent, Permission::kReadWrite});
  }
  return access;
}

// The CPUs, and every device that can use the backing device's memory directly.
std::vector<AccessRequest> Runtime::shared_access() {
  std::vector<AccessRequest> access = cpu_access();
  const Driver& driver = shared_backing().driver();
  for (Agent& agent : agents_.agents()) {
    if (agent.kind() != DeviceKind::kCpu && &agent.device().driver() == &driver) {
      access.push_back({&agent, Permission::kReadWrite});
    }
  }
  return access;
}

EventSource* Runtime::event_source() const {
  for (const auto& driver : drivers_) {
    if (EventSource* events = driver->events()) return events;
  }
  return nullptr;
}

}  // namespace hsa_rt
