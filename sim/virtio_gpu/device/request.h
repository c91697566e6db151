// Request: one command as taken from a queue, until it is answered; and what handlers need of it.
//
// Owner: the device; handlers look at it during their call. Units: bytes. Errors: see read_entry_list.
// Thread-safety: none. Mirrors: QEMU's virtio_gpu_ctrl_command; virtio_gpu_create_mapping_iov.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/virtio_gpu/device/renderer.h"
#include "sim/virtio_gpu/wire/commands.h"
#include "sim/virtio_gpu/wire/guest_memory.h"
#include "sim/virtio_gpu/wire/virtqueue.h"

namespace understudy::virtio_gpu {

struct Request {
  DescriptorChain chain;
  Command command;
  CommandHeader header{};

  bool is_fenced() const { return (header.flags & abi::VIRTIO_GPU_FLAG_FENCE) != 0; }
  bool names_ring() const { return (header.flags & abi::VIRTIO_GPU_FLAG_INFO_RING_IDX) != 0; }
};

// Decodes what the chain starts with.
Request make_request(DescriptorChain chain);

// The memory entries behind a command's struct, mapped. Nothing when there are more than `limit` (0: any
// number), fewer bytes than announced, or an entry that is empty or lies outside memory.
std::optional<Backing> read_entry_list(const GuestMemory& memory, const Request& request,
                                       std::size_t struct_bytes, std::uint32_t entry_count,
                                       std::uint32_t limit);

}  // namespace understudy::virtio_gpu
