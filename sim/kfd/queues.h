// Queues: the user queues of a process: ids, doorbells, SDMA slots and the buffers each queue holds on to.
//
// Owner: KfdProcess. Units: sizes in bytes. Errors: see create and update. Thread-safety: the process's mutex
// guards all of it. Mirrors: amdkfd/kfd_process_queue_manager.c, kfd_queue.c.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/ledger.h"
#include "sim/kfd/device_queues.h"
#include "sim/kfd/gpu_vm.h"
#include "sim/kfd/id_table.h"
#include "sim/kfd/queue_properties.h"

namespace understudy::kfd {

class Gpu;
class KfdDriver;
class KfdProcess;
struct ProcessDevice;
namespace engine {
class HardwareQueue;
}

struct Queue {
  std::uint32_t id = 0;
  ProcessDevice* device = nullptr;
  QueueProperties properties;
  std::optional<SdmaSlot> sdma_slot;
  unsigned doorbell = 0;  // index in the process's slice
  bool has_gws = false;
  // Starts of the mappings this queue keeps from being unmapped.
  std::vector<std::uint64_t> pinned;
  std::uint64_t pinned_ring = 0;
  std::uint64_t pinned_svm_bytes = 0;  // the save area, when it is registered memory
  std::vector<std::uint32_t> cu_mask;
  std::shared_ptr<engine::HardwareQueue> hardware;
  LedgerEntry entry;
};

class Queues {
 public:
  static constexpr unsigned kMaxQueueIds = 1024;
  static constexpr unsigned kDoorbells = 1024;

  Queues(KfdDriver& driver, KfdProcess& process);
  ~Queues();

  // EINVAL bad buffers, ENOSPC/ENOMEM/EPERM/EBUSY limits.
  Result<Queue*> create(const Call* call, ProcessDevice& device, const QueueProperties& properties);
  Result<void> destroy(const Call* call, std::uint32_t id);  // EINVAL
  // EFAULT: unknown queue, or a ring that is no mapping of that size.
  Result<void> update(std::uint32_t id, std::uint64_t ring_address, std::uint64_t ring_size_bytes,
                      std::uint32_t percent, std::uint32_t priority);
  // EINVAL unknown queue or nothing to detach, ENODEV no such hardware, EBUSY.
  Result<void> set_gws(std::uint32_t id, bool attach);
  Queue* find(std::uint32_t id);
  bool any() const { return queues_.size() > 0; }
  std::size_t count_on(const Gpu& gpu) const;
  const std::map<std::uint32_t, std::unique_ptr<Queue>>& all() const { return queues_.all(); }
  void destroy_all();
  // Evictions nest: queues (also later ones) stand still until each pause has been resumed.
  void pause();
  void resume();

 private:
  struct DeviceState {
    unsigned queue_count = 0;
    std::bitset<kDoorbells> doorbells_in_use;
  };
  Result<void> pin_buffers(Queue& queue);
  void unpin_buffers(Queue& queue);
  Result<void> take_slots(Queue& queue);
  Result<unsigned> take_doorbell(Queue& queue);
  static DeviceQueues::SdmaChoice sdma_choice(QueueType type);
  Result<void> start(Queue& queue);
  void release(Queue& queue);
  DeviceState& state_of(const ProcessDevice& device);

  KfdDriver& driver_;
  KfdProcess& process_;
  std::vector<DeviceState> device_states_;  // by GPU index
  unsigned pauses_ = 0;
  IdTable<std::unique_ptr<Queue>> queues_{0, kMaxQueueIds - 1};
};

}  // namespace understudy::kfd
