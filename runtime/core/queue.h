// Queues. What the user holds is the hsa_queue_t at the start of an amd_queue_t in memory that CPU and device
// share; the Queue object behind it owns the ring, the doorbell and the driver's queue.
//
//   GpuQueue   packets are read by the GPU
//   NpuQueue   packets are run by the thread that rings the doorbell, through the NPU's command context
//   SoftQueue  packets are read by the application that made it
//
// QueueTable owns them all. Thread-safe: the indices are atomics in shared memory; creation and destruction
// are locked.
#pragma once

#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/core/async_events.h"
#include "runtime/core/backed_range.h"
#include "runtime/core/signal.h"
#include "runtime/core/status.h"
#include "runtime/driver/queues.h"

namespace hsa_rt {

using QueueErrorCallback = void (*)(hsa_status_t status, hsa_queue_t* source, void* data);

struct QueueRequest {
  uint32_t packet_count = 0;  // a power of two within the agent's limits
  hsa_queue_type32_t type = HSA_QUEUE_TYPE_MULTI;
  QueueErrorCallback callback = nullptr;
  void* callback_data = nullptr;
};

// What queues are made of: given once, by the runtime.
struct QueueParts {
  SignalPool& signals;
  AsyncEvents& events;
  Device& host_memory;              // where rings and descriptors are allocated
  std::vector<AccessRequest> cpus;  // the CPU agents, read-write
};

class Queue {
 public:
  Queue(Agent* agent, std::unique_ptr<BackedRange> descriptor);
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  hsa_queue_t* handle() { return &amd_queue().hsa_queue; }
  amd_queue_t& amd_queue() { return *static_cast<amd_queue_t*>(descriptor_->data()); }
  Agent* agent() const { return agent_; }  // null: a soft queue without one

  virtual Status<void> inactivate() = 0;
  virtual Status<void> set_priority(QueuePriority) { return HSA_STATUS_ERROR_INVALID_QUEUE; }
  virtual Status<void> set_cu_mask(std::span<const uint32_t>) { return HSA_STATUS_ERROR_INVALID_QUEUE; }
  virtual Status<std::vector<uint32_t>> cu_mask() const { return HSA_STATUS_ERROR_INVALID_QUEUE; }
  virtual uint64_t doorbell_id() const { return 0; }

 private:
  Agent* const agent_;
  const std::unique_ptr<BackedRange> descriptor_;
};

class QueueTable {
 public:
  explicit QueueTable(QueueParts parts) : parts_(std::move(parts)) {}

  Status<hsa_queue_t*> create(Agent& agent, const QueueRequest& request);
  Status<hsa_queue_t*> create_soft(const QueueRequest& request, uint32_t features, hsa_signal_t doorbell);
  Status<void> destroy(hsa_queue_t* queue);

  // Null when there is no such queue. The queue stays valid as long as the result is held.
  std::shared_ptr<Queue> find(const hsa_queue_t* queue);

 private:
  hsa_queue_t* publish(std::shared_ptr<Queue> queue);

  const QueueParts parts_;
  std::mutex lock_;
  std::map<const hsa_queue_t*, std::shared_ptr<Queue>> queues_;
};

// The pieces the kinds of queues share.
Result<std::unique_ptr<BackedRange>> allocate_shared_pages(const QueueParts& parts, Agent* agent,
                                                           uint64_t size_bytes);
void write_invalid_packets(void* ring, uint32_t packet_count);
uint64_t next_queue_id();

Status<std::shared_ptr<Queue>> make_gpu_queue(const QueueParts& parts, Agent& agent,
                                              const QueueRequest& request);
Status<std::shared_ptr<Queue>> make_npu_queue(const QueueParts& parts, Agent& agent,
                                              const QueueRequest& request);

}  // namespace hsa_rt
