#include "sim/virtio_gpu/rocm/protocol.h"

#include <algorithm>
#include <utility>

namespace understudy::virtio_gpu {
namespace {

constexpr VhsakmtLayout kLayouts[] = {
    {.name = "reference",
     .memory_request_bytes = sizeof(hsa::vhsakmt_ccmd_memory_req),
     .memory_response_bytes = sizeof(hsa::vhsakmt_ccmd_memory_rsp),
     .queue_response_bytes = sizeof(hsa::vhsakmt_ccmd_queue_rsp),
     .most_caches = hsa::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_CACHE_PROP,
     .most_links = hsa::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_IO_LINK_PROP,
     .one_arena = false,
     .has_later_commands = false,
     .userptr_size_in_pages = true,
     .registers_by_resource = false,
     .refuses_unknown_memory = true,
     .unknown_event_stops = false},
    {.name = "merge-request",
     .memory_request_bytes = sizeof(ccmd::vhsakmt_ccmd_memory_req),
     .memory_response_bytes = sizeof(ccmd::vhsakmt_ccmd_memory_rsp),
     .queue_response_bytes = sizeof(ccmd::vhsakmt_ccmd_queue_rsp),
     .most_caches = ccmd::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_CACHE_PROP,
     .most_links = ccmd::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_IO_LINK_PROP,
     .one_arena = true,
     .has_later_commands = true,
     .userptr_size_in_pages = false,
     .registers_by_resource = true,
     .refuses_unknown_memory = false,
     .unknown_event_stops = true},
};

template <typename Command>
Command frame_of(std::span<const std::byte> bytes) {
  Command command;
  const std::size_t known = std::min(bytes.size(), command.bytes.size());
  std::ranges::copy(bytes.first(known), command.bytes.begin());
  command.payload.assign(bytes.begin() + static_cast<std::ptrdiff_t>(known), bytes.end());
  return command;
}

// The older request has its tail right behind 48 bytes of arguments.
MemoryCommand reference_memory_frame(std::span<const std::byte> bytes) {
  const auto older = frame_of<CommandFrame<hsa::vhsakmt_ccmd_memory_req>>(bytes);
  ccmd::vhsakmt_ccmd_memory_req request{};
  constexpr std::size_t kArguments = offsetof(hsa::vhsakmt_ccmd_memory_req, blob_id);
  static_assert(offsetof(hsa::vhsakmt_ccmd_memory_req, alloc_args) ==
                offsetof(ccmd::vhsakmt_ccmd_memory_req, alloc_args));
  std::memcpy(&request, older.bytes.data(), kArguments);
  request.blob_id = older.request().blob_id;
  request.type = older.request().type;
  request.res_id = older.request().res_id;
  MemoryCommand command;
  std::memcpy(command.bytes.data(), &request, sizeof request);
  command.payload = older.payload;
  return command;
}

}  // namespace

const VhsakmtLayout* find_vhsakmt_layout(std::string_view name) {
  const auto found = std::ranges::find(kLayouts, name, &VhsakmtLayout::name);
  return found == std::end(kLayouts) ? nullptr : found;
}

Result<VhsakmtCommand> decode_vhsakmt(std::span<const std::byte> stream, const VhsakmtLayout& layout) {
  constexpr std::uint32_t kAlignment = 8;
  VhsakmtHeader header;
  if (stream.size() < sizeof header) return Errno(EINVAL);
  std::memcpy(&header, stream.data(), sizeof header);
  if (header.len > stream.size() || header.len < sizeof header || header.len % kAlignment != 0)
    return Errno(EINVAL);
  if (header.rsp_off % kAlignment != 0) return Errno(EINVAL);

  const std::span<const std::byte> bytes = stream.first(header.len);
  switch (header.cmd) {
    case hsa::VHSAKMT_CCMD_NOP:
      return VhsakmtCommand(frame_of<NopCommand>(bytes));
    case hsa::VHSAKMT_CCMD_QUERY_INFO:
      return VhsakmtCommand(frame_of<QueryCommand>(bytes));
    case hsa::VHSAKMT_CCMD_EVENT:
      return VhsakmtCommand(frame_of<EventCommand>(bytes));
    case hsa::VHSAKMT_CCMD_MEMORY:
      if (layout.memory_request_bytes == sizeof(hsa::vhsakmt_ccmd_memory_req))
        return VhsakmtCommand(reference_memory_frame(bytes));
      return VhsakmtCommand(frame_of<MemoryCommand>(bytes));
    case hsa::VHSAKMT_CCMD_QUEUE:
      return VhsakmtCommand(frame_of<QueueCommand>(bytes));
    case hsa::VHSAKMT_CCMD_GL_INTER:
      return VhsakmtCommand(frame_of<GlCommand>(bytes));
    default:
      return Errno(EINVAL);
  }
}

const VhsakmtHeader& header_of(const VhsakmtCommand& command) {
  return std::visit([](const auto& frame) -> const VhsakmtHeader& { return frame.request().hdr; }, command);
}

}  // namespace understudy::virtio_gpu
