// User-mode AQL queues of KFD. The core owns the ring and the indices; this adds what the hardware wants
// beside them (the end-of-pipe buffer and the area where a preempted queue's waves are saved) and the
// doorbell.
//
// Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_queue.c, kfd_chardev.c: kfd_ioctl_create_queue.
#pragma once

#include <memory>

#include "runtime/driver/kfd/device_buffer.h"
#include "runtime/driver/kfd/topology.h"
#include "runtime/driver/queues.h"

namespace hsa_rt::kfd {

class KfdDevice;

Result<std::unique_ptr<AqlQueue>> create_kfd_aql_queue(KfdDevice& device, const AqlQueueRequest& request);

// Takes a queue of any kind off the hardware.
void destroy_queue(int kfd_fd, uint32_t queue_id);

// What a queue must have ready for preemption, per chip. All zero on kernels that do not publish it
// (before 6.12).
struct SaveAreaSizes {
  uint32_t context_bytes = 0;  // per XCC, control stack included
  uint32_t control_stack_bytes = 0;
  uint32_t debug_bytes = 0;  // per XCC
  uint32_t xcc_count = 1;

  uint64_t total_bytes() const;
};
SaveAreaSizes save_area_sizes(const Properties& node);

}  // namespace hsa_rt::kfd
