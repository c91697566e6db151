// HardwareQueue: a user queue as the scheduler runs it: doorbell, packet processor, and what becomes of
// faults and errors.
//
// Owner: shared by the Queue it serves and the scheduler. Units: doorbell values as the queue's type has
// them. Errors: none to callers; a queue that fails stops, and the process is told. Thread-safety: turn()
// belongs to the scheduler's thread; update(), set_paused(), stop() and retire() may be called from any and
// wait for a turn in flight. Mirrors: a hardware queue descriptor (HQD/RLC queue) and kfd_int_process_v9.c:
// event_interrupt_wq_v9.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "sim/core/machine.h"
#include "sim/kfd/engine/address_space.h"
#include "sim/kfd/engine/aql.h"
#include "sim/kfd/engine/plugin_host.h"
#include "sim/kfd/engine/queue_host.h"
#include "sim/kfd/engine/sdma.h"
#include "sim/kfd/events.h"
#include "sim/kfd/queue_properties.h"

namespace understudy::kfd::engine {

// What a queue is made of; everything here outlives it or is shared.
struct QueueSetup {
  Machine* machine = nullptr;
  const Gpu* gpu = nullptr;
  std::shared_ptr<GpuVm> vm;
  std::shared_ptr<Svm> svm;
  std::shared_ptr<Events> events;
  ClientRef client;
  std::uint64_t process_key = 0;
  bool xnack_enabled = false;
  QueueProperties properties;
  std::string label;  // "AQL queue 3"
  BufferRef doorbells;
  unsigned doorbell = 0;
  const PluginHost* plugin = nullptr;
  // Runs on the scheduler's thread, without locks.
  std::function<void(const GpuFault&)> on_fault;
};

class HardwareQueue : private QueueHost {
 public:
  enum class Turn : std::uint8_t {
    kIdle,      // nothing to do until the doorbell rings
    kProgress,  // did something, or has more to do
    kWaiting,   // a condition in memory does not hold yet
  };

  static Result<std::shared_ptr<HardwareQueue>> create(QueueSetup setup);
  ~HardwareQueue();
  HardwareQueue(const HardwareQueue&) = delete;

  std::uint64_t process_key() const { return setup_.process_key; }
  Turn turn();

  void update(const QueueProperties& properties);
  void set_paused(bool paused);
  // No more turns until retire(): a fault evicted the process.
  void stop();
  // No turn is running and none will.
  void retire();

 private:
  HardwareQueue(QueueSetup setup, std::uint64_t* doorbell);

  void interrupt(std::uint32_t event_id) override;
  std::uint64_t clock_counter() const override;
  DispatchResult dispatch(std::span<const std::byte, 64> packet) override;
  bool profiling_enabled() override;
  bool skip_dispatch() override;
  PointDecision at(FaultPoint point) override;

  // These require mutex_.
  void point_at_ring();
  RunStatus run(std::uint64_t doorbell, Budget& budget);
  RunStatus run_stream(std::uint64_t doorbell, Budget& budget);
  void fail(QueueError error);
  void report_skipped();
  // Address of the amd_queue_t around the read and write index, 0 when they are not in one.
  std::uint64_t amd_queue_address() const;

  const QueueSetup setup_;
  std::uint64_t* const doorbell_;  // in setup_.doorbells
  // SDMA's pointers and doorbell count bytes, PM4's count dwords.
  const unsigned pointer_units_per_dw_;
  AddressSpace memory_;
  std::mutex mutex_;  // held during a turn
  QueueProperties properties_;
  std::unique_ptr<CommandProcessor> stream_;  // SDMA and PM4 queues
  std::unique_ptr<Aql> aql_;                  // AQL queues
  std::uint64_t last_doorbell_ = 0;
  bool unfinished_ = false;  // more to do without a new doorbell
  bool paused_ = false;
  std::uint64_t skipped_dispatches_ = 0;
  // Read without the lock to skip a queue quickly.
  std::atomic<bool> stopped_{false};
};

}  // namespace understudy::kfd::engine
