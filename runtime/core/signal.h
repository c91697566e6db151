// Signals.
//
// A signal handle is the address of an amd_signal_t: packet processors and copy engines read and write it
// there, so it lives in memory that every GPU can reach. Beside it, invisible to hardware, stands the Signal
// object.
//
// Sleeping: a signal that has an event of a driver is waited for in that driver; devices raise the event when
// they finish, and stores from the CPU raise it when somebody sleeps. A signal without one (there is no GPU,
// the driver has none, or no event was left) is waited for on the bell, a futex that stores from the CPU
// wake; where a GPU might write it, the sleeper looks again every few milliseconds.
//
// Lifetime: SignalPool owns the slots; a Signal lives as long as somebody holds it, and its slot is not used
// again before. Thread-safe.
#pragma once

#include <hsa/amd_hsa_signal.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/agent.h"
#include "runtime/core/backed_range.h"
#include "runtime/core/status.h"
#include "runtime/driver/events.h"

namespace hsa_rt {

class Signal;
class SignalPool;

// What stands at a signal handle. The part after amd_signal_t is the runtime's own; copy engines store
// timestamps in it, which must be 32-byte aligned.
struct alignas(128) SignalSlot {
  static constexpr uint64_t kLive = 0x7369676e616c2121;

  amd_signal_t amd;
  uint64_t copy_start_ts;
  Signal* object;
  uint64_t live;           // kLive while the handle is valid
  hsa_agent_t copy_agent;  // whose clock the copy timestamps are from; 0: the CPU's
  uint64_t copy_end_ts;
  uint64_t reserved1[3];

  static SignalSlot& at(hsa_signal_t handle) { return *reinterpret_cast<SignalSlot*>(handle.handle); }
  std::atomic<hsa_signal_value_t>& value() {
    return *reinterpret_cast<std::atomic<hsa_signal_value_t>*>(const_cast<int64_t*>(&amd.value));
  }
};
static_assert(sizeof(SignalSlot) == 128 && offsetof(SignalSlot, copy_start_ts) == 64 &&
              offsetof(SignalSlot, copy_end_ts) == 96);

// Wakes CPU threads that wait for signals without events. Costs a store nothing while nobody sleeps.
class SignalBell {
 public:
  // Tells sleepers to look again.
  void ring();
  // Between prepare() and finish() rings are counted; sleep() returns at once if one came since `epoch` was
  // read.
  void prepare() { sleepers_.fetch_add(1); }
  uint32_t epoch() const { return epoch_.load(); }
  void sleep(uint32_t epoch, uint64_t timeout_ns);
  void finish() { sleepers_.fetch_sub(1); }

 private:
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleepers_{0};
};

class Signal {
 public:
  Signal(SignalPool& pool, SignalSlot& slot, std::optional<Event> event);
  virtual ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  hsa_signal_t handle() const { return {reinterpret_cast<uint64_t>(&slot_)}; }
  SignalSlot& slot() const { return slot_; }
  const std::optional<Event>& event() const { return event_; }
  hsa_signal_value_t load() const { return slot_.value().load(std::memory_order_acquire); }

  // After the CPU has changed the value: wakes whoever sleeps on it. Doorbells of software queues act here.
  virtual void value_changed();
  // A store through the handle. Doorbells of hardware queues pass it on.
  virtual void store(hsa_signal_value_t value, std::memory_order order);

  // Brackets sleeping on the event.
  void begin_waiting() { waiting_.fetch_add(1); }
  void end_waiting() { waiting_.fetch_sub(1); }

 private:
  SignalPool& pool_;
  SignalSlot& slot_;
  const std::optional<Event> event_;
  std::atomic<uint32_t> waiting_{0};
};

// A doorbell of a hardware queue: a store goes to the device's register.
class HardwareDoorbell final : public Signal {
 public:
  HardwareDoorbell(SignalPool& pool, SignalSlot& slot, volatile uint64_t* doorbell);
  void value_changed() override {}
  void store(hsa_signal_value_t value, std::memory_order order) override;
};

// A doorbell of a queue that the runtime itself serves.
class SoftwareDoorbell final : public Signal {
 public:
  SoftwareDoorbell(SignalPool& pool, SignalSlot& slot, std::function<void()> rung)
      : Signal(pool, slot, std::nullopt), rung_(std::move(rung)) {}
  void value_changed() override { rung_(); }

 private:
  const std::function<void()> rung_;
};

class SignalPool {
 public:
  // `backing` provides the memory; every agent of `agents` can reach it. `events` may be null.
  SignalPool(Device& backing, std::vector<AccessRequest> access, EventSource* events)
      : backing_(backing), access_(std::move(access)), events_(events) {}
  ~SignalPool();

  // With `sleepable`, devices and CPU threads can wake sleepers through an event as long as there are events.
  Status<std::shared_ptr<Signal>> create(hsa_signal_value_t initial_value, bool sleepable);
  Status<std::shared_ptr<Signal>> create_doorbell(volatile uint64_t* doorbell);
  Status<std::shared_ptr<Signal>> create_doorbell(std::function<void()> rung);

  // Null when the handle is no live signal.
  std::shared_ptr<Signal> find(hsa_signal_t handle);
  // Makes the handle invalid; the object goes when its last holder does. False: no such signal.
  bool forget(hsa_signal_t handle);

  EventSource* events() const { return events_; }
  // Whether a device may change a signal behind the CPU's back.
  bool devices_write() const;
  SignalBell& bell() { return bell_; }

 private:
  friend class Signal;

  Status<SignalSlot*> take_slot();
  void give_back(SignalSlot& slot, const std::optional<Event>& event);
  std::optional<Event> take_event();
  std::shared_ptr<Signal> publish(std::shared_ptr<Signal> signal);

  Device& backing_;
  const std::vector<AccessRequest> access_;
  EventSource* const events_;
  SignalBell bell_;

  std::mutex lock_;
  std::vector<std::unique_ptr<BackedRange>> slabs_;
  std::vector<SignalSlot*> free_slots_;
  std::vector<Event> free_events_;
  size_t event_count_ = 0;
  std::map<uint64_t, std::shared_ptr<Signal>> live_;  // by handle
};

}  // namespace hsa_rt
