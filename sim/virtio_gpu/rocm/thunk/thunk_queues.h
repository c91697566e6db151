// ThunkQueues: the library's user queues of one process, with the buffers each needs beside its ring.
//
// Owner: HostThunk. Units: bytes; addresses of the process. Errors: HsaStatus. Thread-safety: one thread at a
// time, but for openers. Mirrors: libhsakmt queues.c.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "sim/virtio_gpu/device/host_visible_region.h"
#include "sim/virtio_gpu/rocm/thunk/host_gpus.h"
#include "sim/virtio_gpu/rocm/thunk/status.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_memory.h"

namespace understudy::virtio_gpu {

// HSA_QUEUEID: the address of the page that the library keeps for the queue.
enum class QueueHandle : std::uint64_t {};

struct QueueRequest {
  std::uint64_t node_id = 0;
  std::uint32_t type = 0;  // HSA_QUEUE_*
  std::uint32_t percentage = 0;
  std::int64_t priority = 0;
  std::uint32_t sdma_engine = 0;
  std::uint64_t ring_address = 0;
  std::uint64_t ring_bytes = 0;
};

class ThunkQueues {
 public:
  ThunkQueues(const HostGpus& gpus, const Topology& topology, ThunkMemory& memory)
      : gpus_(gpus), topology_(topology), memory_(memory) {}

  // Fills in id, doorbell and, but for AQL queues, the pointers of `resource`.
  HsaStatus create(const QueueRequest& request, hsa::HsaQueueResource& resource);
  HsaStatus destroy(QueueHandle handle);
  HsaStatus update(QueueHandle handle, std::uint32_t percentage, std::int64_t priority,
                   std::uint64_t ring_address, std::uint64_t ring_bytes);
  HsaStatus set_cu_mask(QueueHandle handle, std::span<const std::uint32_t> mask);
  HsaResult<std::uint32_t> allocate_gws(QueueHandle handle, std::uint32_t count);

  // Pages of a node's doorbells, once a queue has been made on it.
  BlobOpener doorbell_opener(std::uint64_t node_id) const;
  // The page with a queue's read and write pointers.
  BlobOpener pointer_page_opener(QueueHandle handle) const {
    return memory_.opener(static_cast<std::uint64_t>(handle));
  }

  static constexpr std::uint64_t kDoorbellPageBytes = 8192;
  // Where doorbells of that node are in the process.
  static constexpr std::uint64_t doorbell_address(std::uint64_t node_id) {
    constexpr std::uint64_t kFirstDoorbellAddress = 0x0e00'0000'0000;
    return kFirstDoorbellAddress + node_id * 0x1'0000;
  }

 private:
  struct Queue {
    std::uint32_t kfd_id = 0;
    std::uint64_t end_of_pipe = 0;
    std::uint64_t save_area = 0;
  };
  HsaStatus allocate_buffers(const HostGpu& gpu, const QueueRequest& request, Queue& queue,
                             uapi::kfd::kfd_ioctl_create_queue_args& args);
  void free_buffers(std::uint64_t page, const Queue& queue);
  const Queue* find(QueueHandle handle) const;

  const HostGpus& gpus_;
  const Topology& topology_;
  ThunkMemory& memory_;
  std::map<QueueHandle, Queue> queues_;
  std::map<std::uint64_t, std::uint64_t> doorbell_offsets_;  // node id -> mmap offset on /dev/kfd
};

}  // namespace understudy::virtio_gpu
