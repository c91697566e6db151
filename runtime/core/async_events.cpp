#include "runtime/core/async_events.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/base/persist.h"

namespace hsa_rt {
namespace {

uint32_t fault_reasons(const MemoryFault& fault) {
  constexpr uint32_t kSramEcc = 1, kPoison = 2, kGpuHang = 3;
  uint32_t reasons = 0;
  if (fault.not_present) reasons |= HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT;
  if (fault.read_only) reasons |= HSA_AMD_MEMORY_FAULT_READ_ONLY;
  if (fault.no_execute) reasons |= HSA_AMD_MEMORY_FAULT_NX;
  if (fault.imprecise) reasons |= HSA_AMD_MEMORY_FAULT_IMPRECISE;
  if (fault.ecc_type == kSramEcc) reasons |= HSA_AMD_MEMORY_FAULT_SRAMECC;
  if (fault.ecc_type == kPoison) reasons |= HSA_AMD_MEMORY_FAULT_DRAMECC;
  if (fault.ecc_type == kGpuHang) reasons |= static_cast<uint32_t>(HSA_AMD_MEMORY_FAULT_HANG);
  return reasons;
}

const char* reason_text(const MemoryFault& fault) {
  if (fault.ecc_type != 0) return "memory error";
  if (fault.read_only) return "write to read-only memory";
  if (fault.no_execute) return "execution of data";
  if (fault.not_present) return "page not present";
  return "unknown";
}

}  // namespace

AsyncEvents::~AsyncEvents() {
  if (thread_.joinable()) {
    {
      const std::lock_guard guard(lock_);
      stopping_ = true;
    }
    wake_->store(1, std::memory_order_release);
    thread_.join();
  }
  if (wake_ != nullptr) signals_.forget(wake_->handle());
  for (const EventWait& wait : driver_events_) {
    persist([&] { return signals_.events()->destroy_event({wait.id, 0}); });
  }
}

Status<void> AsyncEvents::start() {
  wake_ = TRY(signals_.create(0, true));
  if (EventSource* events = signals_.events()) {
    for (const EventKind kind : {EventKind::kMemoryFault, EventKind::kHardwareException}) {
      const Event event = TRY(events->create_event(kind, true).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
      EventWait wait;
      wait.id = event.id;
      wait.kind = kind;
      driver_events_.push_back(wait);
    }
  }
  thread_ = std::thread([this] { loop(); });
  return {};
}

void AsyncEvents::add_handler(std::shared_ptr<Signal> signal, hsa_signal_condition_t condition,
                              hsa_signal_value_t reference, Handler handler) {
  Registration registration;
  registration.condition = {signal.get(), condition, reference};
  registration.signal = std::move(signal);
  registration.handler = std::move(handler);
  {
    const std::lock_guard guard(lock_);
    added_.push_back(std::move(registration));
  }
  wake_->store(1, std::memory_order_release);
}

void AsyncEvents::run(std::function<void()> function) {
  add_handler(nullptr, HSA_SIGNAL_CONDITION_EQ, 0, [function = std::move(function)](hsa_signal_value_t) {
    function();
    return false;
  });
}

void AsyncEvents::run_after(std::vector<std::shared_ptr<Signal>> dependencies,
                            std::function<void()> function) {
  if (dependencies.empty()) {
    run(std::move(function));
    return;
  }
  const std::shared_ptr<Signal> next = std::move(dependencies.back());
  dependencies.pop_back();
  add_handler(
      next, HSA_SIGNAL_CONDITION_EQ, 0,
      [this, rest = std::move(dependencies), function = std::move(function)](hsa_signal_value_t) mutable {
        run_after(std::move(rest), std::move(function));
        return false;
      });
}

void AsyncEvents::add_fault_callback(hsa_amd_system_event_callback_t callback, void* data) {
  const std::lock_guard guard(lock_);
  fault_callbacks_.push_back({callback, data});
}

void AsyncEvents::take_new(std::vector<Registration>& registrations) {
  wake_->store(0, std::memory_order_relaxed);
  const std::lock_guard guard(lock_);
  for (Registration& registration : added_) registrations.push_back(std::move(registration));
  added_.clear();
}

bool AsyncEvents::call_due_handlers(std::vector<Registration>& registrations) {
  bool called = false;
  for (size_t i = 0; i < registrations.size();) {
    Registration& registration = registrations[i];
    const hsa_signal_value_t value = registration.signal == nullptr ? 0 : registration.signal->load();
    if (registration.signal != nullptr && !registration.condition.holds(value)) {
      ++i;
      continue;
    }
    called = true;
    if (registration.handler(value)) {
      ++i;
    } else {
      registrations.erase(registrations.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return called;
}

void AsyncEvents::loop() {
  std::vector<Registration> registrations;
  for (;;) {
    take_new(registrations);
    {
      const std::lock_guard guard(lock_);
      if (stopping_) return;
    }
    std::vector<SignalCondition> conditions{{wake_.get(), HSA_SIGNAL_CONDITION_NE, 0}};
    for (const Registration& registration : registrations) {
      if (registration.signal != nullptr) conditions.push_back(registration.condition);
    }
    SignalSleeper sleeper(signals_, conditions, driver_events_);
    sleeper.arm();
    // A handler may change what to wait for; wake_ tells of new registrations.
    if (call_due_handlers(registrations) || wake_->load() != 0) continue;
    sleeper.sleep(kWaitForever);
    for (EventWait& wait : driver_events_) {
      if (wait.fault.device != nullptr) report(std::exchange(wait.fault, {}));
      if (wait.exception.device != nullptr) report(std::exchange(wait.exception, {}));
    }
  }
}

bool AsyncEvents::call_fault_callbacks(const hsa_amd_event_t& event) {
  std::vector<FaultCallback> callbacks;
  {
    const std::lock_guard guard(lock_);
    callbacks = fault_callbacks_;
  }
  bool handled = false;
  for (const FaultCallback& callback : callbacks) {
    handled = callback.function(&event, callback.data) == HSA_STATUS_SUCCESS || handled;
  }
  return handled;
}

void AsyncEvents::report(const MemoryFault& fault) {
  Agent* agent = agents_.agent_of(*fault.device);
  hsa_amd_event_t event{};
  event.event_type = HSA_AMD_GPU_MEMORY_FAULT_EVENT;
  event.memory_fault.agent = agent->handle();
  event.memory_fault.virtual_address = fault.address;
  event.memory_fault.fault_reason_mask = fault_reasons(fault);
  if (call_fault_callbacks(event)) return;
  std::fprintf(stderr, "Memory access fault by %s (node %u) at address 0x%llx: %s\n",
               agent->info().name.c_str(), agent->info().node_id,
               static_cast<unsigned long long>(fault.address), reason_text(fault));
  std::abort();
}

void AsyncEvents::report(const HardwareException& exception) {
  std::fprintf(stderr, "Hardware exception of %s (node %u): %s%s\n", exception.device->info().name.c_str(),
               exception.device->info().node_id, exception.caused_by_ecc ? "memory error" : "GPU hang",
               exception.memory_lost ? ", memory contents lost" : "");
  std::abort();
}

}  // namespace hsa_rt
