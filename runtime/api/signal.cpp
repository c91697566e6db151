// Signals: creation, the family of atomic operations in all their memory orders, and waiting.
#include <algorithm>
#include <set>

#include "runtime/api/entry.h"
#include "runtime/core/signal_wait.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

SignalSlot& slot_of(hsa_signal_t signal) {
  return SignalSlot::at(signal);
}

void store(hsa_signal_t signal, hsa_signal_value_t value, std::memory_order order) {
  slot_of(signal).object->store(value, order);
}

// A read-modify-write operation on the value, followed by waking whoever sleeps on it.
template <class Operation>
auto modify(hsa_signal_t signal, Operation operation) {
  SignalSlot& slot = slot_of(signal);
  const auto before = operation(slot.value());
  std::atomic_thread_fence(std::memory_order_seq_cst);
  slot.object->value_changed();
  return before;
}

bool is_live(hsa_signal_t signal) {
  return Runtime::current()->signals().find(signal) != nullptr;
}

hsa_signal_value_t wait_one(hsa_signal_t signal, hsa_signal_condition_t condition,
                            hsa_signal_value_t compare_value, uint64_t timeout_hint) {
  const SignalCondition wanted{slot_of(signal).object, condition, compare_value};
  const auto satisfied = wait_any(Runtime::current()->signals(), {&wanted, 1}, timeout_hint);
  return satisfied ? satisfied->value : slot_of(signal).value().load(std::memory_order_acquire);
}

// The valid ones among an array of signals, and where each stood.
struct WaitList {
  std::vector<SignalCondition> conditions;
  std::vector<uint32_t> positions;

  WaitList(uint32_t count, const hsa_signal_t* signals, const hsa_signal_condition_t* conds,
           const hsa_signal_value_t* values) {
    for (uint32_t i = 0; i < count; ++i) {
      if (signals[i].handle == 0 || !is_live(signals[i])) continue;
      conditions.push_back({slot_of(signals[i]).object, conds[i], values[i]});
      positions.push_back(i);
    }
  }
};

Status<void> create_signal(Runtime& runtime, hsa_signal_value_t initial_value, uint32_t num_consumers,
                           const hsa_agent_t* consumers, uint64_t attributes, hsa_signal_t* signal) {
  TRY(require(signal != nullptr && (num_consumers == 0 || consumers != nullptr)));
  const std::set<uint64_t> distinct = [&] {
    std::set<uint64_t> handles;
    for (uint32_t i = 0; i < num_consumers; ++i) handles.insert(consumers[i].handle);
    return handles;
  }();
  TRY(require(distinct.size() == num_consumers));
  // Only CPU threads sleep; a signal that no CPU waits for needs no event.
  bool cpu_consumes = num_consumers == 0;
  for (Agent* agent : TRY(agents_for(runtime, consumers, num_consumers))) {
    cpu_consumes = cpu_consumes || agent->kind() == DeviceKind::kCpu;
  }
  const bool sleepable = cpu_consumes && (attributes & HSA_AMD_SIGNAL_AMD_GPU_ONLY) == 0;
  *signal = TRY(runtime.signals().create(initial_value, sleepable))->handle();
  return {};
}

}  // namespace

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
                               const hsa_agent_t* consumers, hsa_signal_t* signal) {
  return hsa_amd_signal_create(initial_value, num_consumers, consumers, 0, signal);
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
                                   const hsa_agent_t* consumers, uint64_t attributes, hsa_signal_t* signal) {
  return with_runtime([&](Runtime& runtime) {
    return create_signal(runtime, initial_value, num_consumers, consumers, attributes, signal);
  });
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(signal.handle != 0));
    return require(runtime.signals().forget(signal), HSA_STATUS_ERROR_INVALID_SIGNAL);
  });
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal, volatile hsa_signal_value_t** value_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value_ptr != nullptr));
    const std::shared_ptr<Signal> found = TRY(signal_for(runtime, signal));
    // Storing through the pointer wakes nobody, so it is not given out where somebody may sleep.
    TRY(require(!found->event().has_value()));
    *value_ptr = &found->slot().amd.value;
    return {};
  });
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) {
  return slot_of(signal).value().load(std::memory_order_acquire);
}
hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) {
  return slot_of(signal).value().load(std::memory_order_relaxed);
}
hsa_signal_value_t hsa_signal_load_acquire(hsa_signal_t signal) {
  return hsa_signal_load_scacquire(signal);
}

void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal, value, std::memory_order_relaxed);
}
void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal, value, std::memory_order_release);
}
void hsa_signal_store_release(hsa_signal_t signal, hsa_signal_value_t value) {
  store(signal, value, std::memory_order_release);
}
void hsa_signal_silent_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  slot_of(signal).value().store(value, std::memory_order_relaxed);
}
void hsa_signal_silent_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  slot_of(signal).value().store(value, std::memory_order_release);
}

// The operations come in four memory orders, three of which have a deprecated name beside the current one.
#define HSA_RT_MODIFY(name, method, order)                                     \
  void name(hsa_signal_t signal, hsa_signal_value_t value) {                   \
    modify(signal, [&](auto& target) { return target.method(value, order); }); \
  }
#define HSA_RT_MODIFY_ALL_ORDERS(name, method)                                      \
  HSA_RT_MODIFY(hsa_signal_##name##_relaxed, method, std::memory_order_relaxed)     \
  HSA_RT_MODIFY(hsa_signal_##name##_scacquire, method, std::memory_order_acquire)   \
  HSA_RT_MODIFY(hsa_signal_##name##_screlease, method, std::memory_order_release)   \
  HSA_RT_MODIFY(hsa_signal_##name##_scacq_screl, method, std::memory_order_acq_rel) \
  HSA_RT_MODIFY(hsa_signal_##name##_acquire, method, std::memory_order_acquire)     \
  HSA_RT_MODIFY(hsa_signal_##name##_release, method, std::memory_order_release)     \
  HSA_RT_MODIFY(hsa_signal_##name##_acq_rel, method, std::memory_order_acq_rel)

HSA_RT_MODIFY_ALL_ORDERS(add, fetch_add)
HSA_RT_MODIFY_ALL_ORDERS(subtract, fetch_sub)
HSA_RT_MODIFY_ALL_ORDERS(and, fetch_and)
HSA_RT_MODIFY_ALL_ORDERS(or, fetch_or)
HSA_RT_MODIFY_ALL_ORDERS(xor, fetch_xor)

#define HSA_RT_EXCHANGE(suffix, order)                                                             \
  hsa_signal_value_t hsa_signal_exchange_##suffix(hsa_signal_t signal, hsa_signal_value_t value) { \
    return modify(signal, [&](auto& target) { return target.exchange(value, order); });            \
  }                                                                                                \
  hsa_signal_value_t hsa_signal_cas_##suffix(hsa_signal_t signal, hsa_signal_value_t expected,     \
                                             hsa_signal_value_t value) {                           \
    return modify(signal, [&](auto& target) {                                                      \
      target.compare_exchange_strong(expected, value, order);                                      \
      return expected;                                                                             \
    });                                                                                            \
  }

HSA_RT_EXCHANGE(relaxed, std::memory_order_relaxed)
HSA_RT_EXCHANGE(scacquire, std::memory_order_acquire)
HSA_RT_EXCHANGE(screlease, std::memory_order_release)
HSA_RT_EXCHANGE(scacq_screl, std::memory_order_acq_rel)
HSA_RT_EXCHANGE(acquire, std::memory_order_acquire)
HSA_RT_EXCHANGE(release, std::memory_order_release)
HSA_RT_EXCHANGE(acq_rel, std::memory_order_acq_rel)

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                             hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                             hsa_wait_state_t) {
  return wait_one(signal, condition, compare_value, timeout_hint);
}
hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                           hsa_wait_state_t) {
  return wait_one(signal, condition, compare_value, timeout_hint);
}
hsa_signal_value_t hsa_signal_wait_acquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                           hsa_wait_state_t) {
  return wait_one(signal, condition, compare_value, timeout_hint);
}

uint32_t hsa_amd_signal_wait_any(uint32_t signal_count, hsa_signal_t* signals, hsa_signal_condition_t* conds,
                                 hsa_signal_value_t* values, uint64_t timeout_hint, hsa_wait_state_t,
                                 hsa_signal_value_t* satisfying_value) {
  if (Runtime::current() == nullptr) return UINT32_MAX;
  const WaitList list(signal_count, signals, conds, values);
  if (list.conditions.empty()) return UINT32_MAX;
  const auto satisfied = wait_any(Runtime::current()->signals(), list.conditions, timeout_hint);
  if (!satisfied) return UINT32_MAX;
  if (satisfying_value != nullptr) *satisfying_value = satisfied->value;
  return list.positions[satisfied->index];
}

uint32_t hsa_amd_signal_wait_all(uint32_t signal_count, hsa_signal_t* signals, hsa_signal_condition_t* conds,
                                 hsa_signal_value_t* values, uint64_t timeout_hint, hsa_wait_state_t,
                                 hsa_signal_value_t* satisfying_values) {
  if (Runtime::current() == nullptr) return UINT32_MAX;
  const WaitList list(signal_count, signals, conds, values);
  std::vector<hsa_signal_value_t> seen(list.conditions.size());
  const bool all =
      list.conditions.empty() || wait_all(Runtime::current()->signals(), list.conditions, timeout_hint, seen);
  if (satisfying_values != nullptr) {
    std::fill_n(satisfying_values, signal_count, 0);
    for (size_t i = 0; i < seen.size(); ++i) satisfying_values[list.positions[i]] = seen[i];
  }
  return all ? 0 : UINT32_MAX;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t cond,
                                          hsa_signal_value_t value, hsa_amd_signal_handler handler,
                                          void* arg) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(handler != nullptr));
    runtime.events().add_handler(TRY(signal_for(runtime, signal)), cond, value,
                                 [handler, arg](hsa_signal_value_t seen) { return handler(seen, arg); });
    return {};
  });
}

hsa_status_t hsa_amd_async_function(void (*callback)(void* arg), void* arg) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    runtime.events().run([callback, arg] { callback(arg); });
    return {};
  });
}

hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t callback, void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    runtime.events().add_fault_callback(callback, data);
    return {};
  });
}
