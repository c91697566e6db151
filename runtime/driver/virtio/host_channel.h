// HostChannel: calls to the host's KFD library (vhsakmt). A call is a command in the context's stream and an
// answer in a page that host and guest share. Calls are made one at a time; none of them waits on the host.
//
// Two incompatible layouts of the MEMORY command are in use and nothing announces which; the channel finds
// out with a command that means the same harmless thing in both.
//
// Owner: VirtioDriver. Units: bytes. Errors: what the host said, as errno; EOPNOTSUPP for commands the host
// does not know; EIO when the host stopped in the middle, after which the channel is of no more use.
// Thread-safe. Mirrors: virglrenderer src/rocm (the other end).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/base/mapping.h"
#include "runtime/driver/virtio/virtio_file.h"
#include "uapi/vhsakmt.h"
#include "uapi/vhsakmt_variants.h"

namespace hsa_rt::virtio {

namespace vhsakmt = uapi::vhsakmt;
// The later layout has everything the earlier one has; calls are written in it.
namespace later = uapi::vhsakmt::variants::host_mr1568;

using QueryRequest = later::vhsakmt_ccmd_query_info_req;
using QueryAnswer = later::vhsakmt_ccmd_query_info_rsp;
using MemoryRequest = later::vhsakmt_ccmd_memory_req;
using MemoryAnswer = later::vhsakmt_ccmd_memory_rsp;
using QueueRequest = later::vhsakmt_ccmd_queue_req;
using QueueAnswer = later::vhsakmt_ccmd_queue_rsp;

class HostChannel {
 public:
  static Result<std::unique_ptr<HostChannel>> open(VirtioFile& file);

  // The caller fills in all but the header of the request. `elements` receives what follows a fixed answer.
  Result<void> query(const QueryRequest& request, QueryAnswer& answer, std::span<std::byte> elements = {});
  Result<void> memory(const MemoryRequest& request, MemoryAnswer& answer,
                      std::span<const uint32_t> payload = {});
  Result<void> queue(const QueueRequest& request, QueueAnswer& answer,
                     std::span<const uint32_t> payload = {});

  // How many cache descriptions one query may ask for.
  uint32_t most_caches() const;
  // Memory without an address, and queues that change after they were made, exist.
  bool is_later() const { return later_; }

 private:
  HostChannel(VirtioFile& file, VirtioFile::Blob shared_pages, Mapping mapping);
  Result<void> find_layout();

  // Sends `request`, whose header is filled in here, and reads the answer; `answer` starts with its length
  // and the host's verdict, which is not looked at.
  Result<void> exchange(uint32_t command, std::vector<std::byte> request, std::span<std::byte> answer);

  VirtioFile& file_;
  const VirtioFile::Blob shared_pages_;
  const Mapping mapping_;
  bool later_ = false;

  std::mutex lock_;
  uint32_t seqno_ = 0;
  bool broken_ = false;
};

}  // namespace hsa_rt::virtio
