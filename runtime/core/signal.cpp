#include "runtime/core/signal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <new>

#include "runtime/base/persist.h"

namespace hsa_rt {
namespace {

constexpr uint64_t kSlabBytes = 64 * 1024;

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const struct timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void SignalBell::ring() {
  if (sleepers_.load() == 0) return;
  epoch_.fetch_add(1);
  futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

void SignalBell::sleep(uint32_t epoch, uint64_t timeout_ns) {
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  const struct timespec timeout {
    static_cast<time_t>(timeout_ns / kNsPerSecond), static_cast<long>(timeout_ns % kNsPerSecond)
  };
  futex(epoch_, FUTEX_WAIT_PRIVATE, epoch, timeout_ns == UINT64_MAX ? nullptr : &timeout);
}

Signal::Signal(SignalPool& pool, SignalSlot& slot, std::optional<Event> event)
    : pool_(pool), slot_(slot), event_(event) {
  slot_.object = this;
  if (event_) {
    slot_.amd.event_mailbox_ptr = event_->mailbox_address;
    slot_.amd.event_id = event_->id;
  }
}

Signal::~Signal() {
  pool_.give_back(slot_, event_);
}

void Signal::value_changed() {
  if (event_) {
    if (waiting_.load() != 0) (void)pool_.events()->set_event(*event_);
  }
  pool_.bell().ring();
}

void Signal::store(hsa_signal_value_t value, std::memory_order order) {
  slot_.value().store(value, order);
  // The value must be out before value_changed() looks for sleepers, or one that just fell asleep would be
  // missed.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  value_changed();
}

HardwareDoorbell::HardwareDoorbell(SignalPool& pool, SignalSlot& slot, volatile uint64_t* doorbell)
    : Signal(pool, slot, std::nullopt) {
  slot.amd.kind = AMD_SIGNAL_KIND_DOORBELL;
  slot.amd.hardware_doorbell_ptr = doorbell;
}

void HardwareDoorbell::store(hsa_signal_value_t value, std::memory_order) {
  // Everything written to the queue must be visible before the device is told.
  std::atomic_thread_fence(std::memory_order_release);
  *slot().amd.hardware_doorbell_ptr = static_cast<uint64_t>(value);
}

SignalPool::~SignalPool() {
  live_.clear();
  for (const Event& event : free_events_) {
    persist([&] { return events_->destroy_event(event); });
  }
}

bool SignalPool::devices_write() const {
  return std::ranges::any_of(access_, [](const AccessRequest& request) {
    return !request.agent->device().shares_cpu_page_tables();
  });
}

Status<std::shared_ptr<Signal>> SignalPool::create(hsa_signal_value_t initial_value, bool sleepable) {
  SignalSlot* slot = TRY(take_slot());
  slot->amd.kind = AMD_SIGNAL_KIND_USER;
  slot->value().store(initial_value, std::memory_order_relaxed);
  return publish(std::make_shared<Signal>(*this, *slot, sleepable ? take_event() : std::nullopt));
}

Status<std::shared_ptr<Signal>> SignalPool::create_doorbell(volatile uint64_t* doorbell) {
  SignalSlot* slot = TRY(take_slot());
  return publish(std::make_shared<HardwareDoorbell>(*this, *slot, doorbell));
}

Status<std::shared_ptr<Signal>> SignalPool::create_doorbell(std::function<void()> rung) {
  SignalSlot* slot = TRY(take_slot());
  slot->amd.kind = AMD_SIGNAL_KIND_USER;
  return publish(std::make_shared<SoftwareDoorbell>(*this, *slot, std::move(rung)));
}

std::shared_ptr<Signal> SignalPool::publish(std::shared_ptr<Signal> signal) {
  const std::lock_guard guard(lock_);
  live_.emplace(signal->handle().handle, signal);
  std::atomic_ref(signal->slot().live).store(SignalSlot::kLive, std::memory_order_release);
  return signal;
}

std::shared_ptr<Signal> SignalPool::find(hsa_signal_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = live_.find(handle.handle);
  return found == live_.end() ? nullptr : found->second;
}

bool SignalPool::forget(hsa_signal_t handle) {
  std::shared_ptr<Signal> signal;  // outlives the lock: its destructor takes it again
  const std::lock_guard guard(lock_);
  const auto found = live_.find(handle.handle);
  if (found == live_.end()) return false;
  signal = std::move(found->second);
  live_.erase(found);
  std::atomic_ref(signal->slot().live).store(0, std::memory_order_release);
  return true;
}

Status<SignalSlot*> SignalPool::take_slot() {
  const std::lock_guard guard(lock_);
  if (free_slots_.empty()) {
    AllocationRequest request;
    request.size_bytes = kSlabBytes;
    request.placement = Placement::kHost;
    request.fine_grained = true;
    std::unique_ptr<BackedRange> slab =
        TRY(BackedRange::allocate(backing_, request, access_).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    auto* first = static_cast<SignalSlot*>(slab->data());
    slabs_.push_back(std::move(slab));
    free_slots_.reserve(slabs_.size() *
                        (kSlabBytes / sizeof(SignalSlot)));  // so that give_back() cannot fail
    for (size_t i = kSlabBytes / sizeof(SignalSlot); i > 0; --i) free_slots_.push_back(&first[i - 1]);
  }
  SignalSlot* slot = free_slots_.back();
  free_slots_.pop_back();
  return new (slot) SignalSlot{};
}

std::optional<Event> SignalPool::take_event() {
  if (events_ == nullptr) return std::nullopt;
  {
    const std::lock_guard guard(lock_);
    if (!free_events_.empty()) {
      const Event event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  const Result<Event> event = events_->create_event(EventKind::kSignal, true);
  if (!event) return std::nullopt;  // events are few; a signal works without one
  const std::lock_guard guard(lock_);
  free_events_.reserve(++event_count_);
  return event.value();
}

void SignalPool::give_back(SignalSlot& slot, const std::optional<Event>& event) {
  const std::lock_guard guard(lock_);
  free_slots_.push_back(&slot);
  if (event) free_events_.push_back(*event);
}

}  // namespace hsa_rt
