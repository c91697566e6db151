// Queues on a GPU of the host: AQL queues for the core, which owns ring and indices, and the queue of a copy
// engine, whose pointers the host keeps.
//
// Mirrors: virglrenderer src/rocm/hsakmt_queues.c.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/driver/queues.h"

namespace hsa_rt::virtio {

class HostChannel;
class VirtioDevice;

Result<std::unique_ptr<AqlQueue>> create_virtio_aql_queue(VirtioDevice& device,
                                                          const AqlQueueRequest& request);
Result<std::unique_ptr<CopyEngine>> create_virtio_copy_engine(VirtioDevice& device);

// Takes a queue off the hardware, by the resource made of it or, without one (0), by the host's handle.
void destroy_host_queue(HostChannel& channel, uint64_t queue_handle, uint32_t resource_id);

}  // namespace hsa_rt::virtio
