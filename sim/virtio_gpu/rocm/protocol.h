// The vhsakmt protocol: the commands a guest's library puts into SUBMIT_3D, in both of the incompatible
// layouts that are published.
//
// Owner: plain values and constant tables. Units: bytes. Errors: decode_command EINVAL for a frame the host
// does not follow. Thread-safety: pure functions. Mirrors: virglrenderer src/rocm/hsakmt_virtio_proto.h,
// drm_context.c: drm_context_submit_cmd.
//
// Requests and responses of the older layout are prefixes of the newer one's but for the tail of a MEMORY
// request, so the newer structs stand for both; a layout says how much of them is on the wire.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/result.h"
#include "uapi/vhsakmt.h"
#include "uapi/vhsakmt_variants.h"

namespace understudy::virtio_gpu {

namespace hsa = uapi::vhsakmt;
namespace ccmd = uapi::vhsakmt::variants::host_mr1568;

// What one published host does; see facts in docs/fidelity.md for where they come from.
struct VhsakmtLayout {
  std::string_view name;
  std::size_t memory_request_bytes;
  std::size_t memory_response_bytes;
  std::size_t queue_response_bytes;
  std::uint32_t most_caches;
  std::uint32_t most_links;
  // One range of addresses for all contexts; otherwise a slice for each.
  bool one_arena;
  // The commands numbered after the first published ones exist.
  bool has_later_commands;
  // MAP_USERPTR reports the size in pages.
  bool userptr_size_in_pages;
  // REG_MEM_WITH_FLAG wants the resource, and merges its pages only then.
  bool registers_by_resource;
  // Unknown MEMORY commands are refused; otherwise answered as if done.
  bool refuses_unknown_memory;
  // Unknown EVENT commands end the submission; otherwise nothing is written.
  bool unknown_event_stops;
};

// "reference", "merge-request".
const VhsakmtLayout* find_vhsakmt_layout(std::string_view name);

// A request, filled up with zeroes where the guest's is shorter, and what follows it. The structs end in
// arrays of no fixed size, so they are kept as bytes.
template <typename RequestType>
struct CommandFrame {
  const RequestType& request() const { return *reinterpret_cast<const RequestType*>(bytes.data()); }

  alignas(RequestType) std::array<std::byte, sizeof(RequestType)> bytes{};
  std::vector<std::byte> payload;
};
using NopCommand = CommandFrame<ccmd::vhsakmt_ccmd_nop_req>;
using QueryCommand = CommandFrame<ccmd::vhsakmt_ccmd_query_info_req>;
using EventCommand = CommandFrame<ccmd::vhsakmt_ccmd_event_req>;
using MemoryCommand = CommandFrame<ccmd::vhsakmt_ccmd_memory_req>;
using QueueCommand = CommandFrame<ccmd::vhsakmt_ccmd_queue_req>;
using GlCommand = CommandFrame<ccmd::vhsakmt_ccmd_gl_inter_req>;

using VhsakmtCommand =
    std::variant<NopCommand, QueryCommand, EventCommand, MemoryCommand, QueueCommand, GlCommand>;

using VhsakmtHeader = ccmd::vdrm_ccmd_req;

// The command at the start of `stream`; its header says how long it is. EINVAL: no command, or one that does
// not fit the stream.
Result<VhsakmtCommand> decode_vhsakmt(std::span<const std::byte> stream, const VhsakmtLayout& layout);
const VhsakmtHeader& header_of(const VhsakmtCommand& command);

// An answer as the host builds it: zeroes of its own size.
class VhsakmtReply {
 public:
  explicit VhsakmtReply(std::size_t size_bytes) : bytes_(size_bytes) {}
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> bytes() { return bytes_; }

  // The struct at the start; its members beyond the size are not to be touched.
  template <typename ResponseType, typename Function>
  void edit(Function function) {
    ResponseType response{};
    std::memcpy(&response, bytes_.data(), std::min(sizeof response, bytes_.size()));
    function(response);
    std::memcpy(bytes_.data(), &response, std::min(sizeof response, bytes_.size()));
  }
  void set_ret(std::int32_t ret) { std::memcpy(bytes_.data() + sizeof(std::uint32_t), &ret, sizeof ret); }
  std::int32_t ret() const {
    std::int32_t ret = 0;
    std::memcpy(&ret, bytes_.data() + sizeof(std::uint32_t), sizeof ret);
    return ret;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace understudy::virtio_gpu
