// QUERY_INFO. Mirrors virglrenderer src/rocm/hsakmt_query.c: vhsakmt_ccmd_query_info.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "sim/virtio_gpu/rocm/rocm_context.h"

namespace understudy::virtio_gpu {
namespace {

using Response = ccmd::vhsakmt_ccmd_query_info_rsp;

std::int32_t ret_of(HsaStatus status) {
  return static_cast<std::int32_t>(status);
}

// The value into `field`, or only the status.
template <typename T, typename Field>
std::int32_t store(HsaResult<T> result, Field& field) {
  if (result) field = result.value();
  return ret_of(result.status());
}

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

RocmContext::Answer RocmContext::handle(const QueryCommand& command) {
  const auto& request = command.request();
  switch (request.type) {
    case hsa::VHSAKMT_CCMD_QUERY_GET_NOD_MEM_PROP:
    case hsa::VHSAKMT_CCMD_QUERY_GET_NOD_CACHE_PROP:
    case hsa::VHSAKMT_CCMD_QUERY_GET_NOD_IO_LINK_PROP:
      return query_array(command);
    case hsa::VHSAKMT_CCMD_QUERY_TILE_CONFIG:
      return query_tile_config(command);
    case hsa::VHSAKMT_CCMD_QUERY_POINTER_INFO:
      return query_pointer_info(command);
    default:
      break;
  }
  const std::uint32_t last = layout().has_later_commands ? ccmd::VHSAKMT_CCMD_QUERY_SPM_SET_DST_BUFFER
                                                         : hsa::VHSAKMT_CCMD_QUERY_GET_RUNTIME_CAPS;
  // No answer at all; the guest's slot keeps what it had.
  if (request.type > last) return std::optional<VhsakmtReply>();

  VhsakmtReply reply = TRY(make_reply(request.hdr, sizeof(Response)));
  reply.edit<Response>([&](Response& response) { response.ret = query(command, response); });
  return std::optional(std::move(reply));
}

std::int32_t RocmContext::query(const QueryCommand& command, Response& response) {
  const auto& request = command.request();
  switch (request.type) {
    case hsa::VHSAKMT_CCMD_QUERY_GPU_INFO:
      return thunk().gpu_info(response.gpu_info);
    case hsa::VHSAKMT_CCMD_QUERY_OPEN_KFD:
      response.open_kfd_rsp.vm_start = arena_->base();
      response.open_kfd_rsp.vm_size = arena_->size_bytes();
      // A guest whose heap lies above cannot share these addresses; it is told, and told them all the same.
      if (!layout().one_arena && request.open_kfd_args.cur_vm_start > arena_->base())
        return ret_of(HsaStatus::kError);
      return 0;
    case hsa::VHSAKMT_CCMD_QUERY_GET_VER:
      return store(thunk().version(), response.kfd_version);
    case hsa::VHSAKMT_CCMD_QUERY_REL_SYS_PROP:
    case hsa::VHSAKMT_CCMD_QUERY_RUN_TIME_DISABLE:
      return 0;
    case hsa::VHSAKMT_CCMD_QUERY_GET_SYS_PROP:
      response.sys_props = thunk().topology().system;
      return 0;
    case hsa::VHSAKMT_CCMD_QUERY_GET_NODE_PROP:
      return store(thunk().node_properties(request.NodeID), response.node_props);
    case hsa::VHSAKMT_CCMD_QUERY_GET_XNACK_MODE:
      return store(thunk().xnack_mode(), response.xnack_mode);
    case hsa::VHSAKMT_CCMD_QUERY_RUN_TIME_ENABLE: {
      const HsaStatus status = thunk().runtime_enable(request.run_time_enable_args.setupTtmp != 0);
      return status == HsaStatus::kUnavailable ? 0 : ret_of(status);
    }
    case hsa::VHSAKMT_CCMD_QUERY_GET_CLOCK_COUNTERS:
      return store(thunk().clock_counters(request.NodeID), response.clock_counters);
    case hsa::VHSAKMT_CCMD_QUERY_NANO_TIME:
      response.nano_time_rsp.nano_time = monotonic_ns();
      return 0;
    case hsa::VHSAKMT_CCMD_QUERY_GET_RUNTIME_CAPS:
      response.caps = 0;
      return 0;
    default:
      return later_query(command);
  }
}

// Commands of the newer host that make sense without a device handle of the host's library.
std::int32_t RocmContext::later_query(const QueryCommand& command) {
  const auto& request = command.request();
  switch (request.type) {
    case ccmd::VHSAKMT_CCMD_QUERY_SET_XNACK_MODE:
      return ret_of(thunk().set_xnack_mode(request.xnack_mode));
    case ccmd::VHSAKMT_CCMD_QUERY_DRM_CMD_WRITE_READ:
      if (request.drm_cmd_write_read_args.size > ccmd::VHSAKMT_CCMD_QUERY_DRM_CMD_WRITE_READ_MAX_SIZE)
        return -EINVAL;
      return ret_of(HsaStatus::kNotSupported);
    default:
      return ret_of(HsaStatus::kNotSupported);
  }
}

// The fixed answer, then as many elements as were asked for.
RocmContext::Answer RocmContext::query_array(const QueryCommand& command) {
  const auto& request = command.request();
  const auto answer = [&]<typename Element>(std::uint32_t count, std::uint32_t most,
                                            std::function<HsaStatus(std::span<Element>)> fill) -> Answer {
    if (count > most) return answer_with(request.hdr, sizeof(Response), -EINVAL);
    const std::size_t payload_bytes = std::size_t{count} * sizeof(Element);
    VhsakmtReply reply = TRY(make_reply(request.hdr, sizeof(Response) + payload_bytes));
    std::vector<Element> elements(count);
    reply.set_ret(ret_of(fill(elements)));
    std::ranges::copy(std::as_bytes(std::span(elements)), reply.bytes().subspan(sizeof(Response)).begin());
    return std::optional(std::move(reply));
  };
  switch (request.type) {
    case hsa::VHSAKMT_CCMD_QUERY_GET_NOD_MEM_PROP:
      return answer.operator()<hsa::HsaMemoryProperties>(
          request.node_mem_prop_args.NumBanks, hsa::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_MEM_PROP,
          [&](auto banks) { return thunk().memory_properties(request.node_mem_prop_args.NodeId, banks); });
    case hsa::VHSAKMT_CCMD_QUERY_GET_NOD_CACHE_PROP:
      return answer.operator()<hsa::HsaCacheProperties>(
          request.node_cache_prop_args.NumCaches, layout().most_caches,
          [&](auto caches) { return thunk().cache_properties(request.node_cache_prop_args.NodeId, caches); });
    default:
      return answer.operator()<hsa::HsaIoLinkProperties>(
          request.node_io_link_args.NumIoLinks, layout().most_links,
          [&](auto links) { return thunk().link_properties(request.node_io_link_args.NodeId, links); });
  }
}

RocmContext::Answer RocmContext::query_tile_config(const QueryCommand& command) {
  const auto& request = command.request();
  const hsa::HsaGpuTileConfig& asked = request.tile_config_args.config;
  if (asked.NumTileConfigs > hsa::VHSAKMT_CCMD_QUERY_MAX_TILE_CONFIG ||
      asked.NumMacroTileConfigs > hsa::VHSAKMT_CCMD_QUERY_MAX_TILE_CONFIG)
    return answer_with(request.hdr, sizeof(Response), -EINVAL);

  std::vector<std::uint32_t> tiles(asked.NumTileConfigs);
  std::vector<std::uint32_t> macro_tiles(asked.NumMacroTileConfigs);
  const std::size_t tile_bytes = tiles.size() * sizeof(std::uint32_t);
  const std::size_t macro_bytes = macro_tiles.size() * sizeof(std::uint32_t);
  VhsakmtReply reply = TRY(make_reply(request.hdr, sizeof(Response) + tile_bytes + macro_bytes));
  reply.edit<Response>([&](Response& response) {
    response.tile_config_rsp = asked;  // with the guest's pointers in it
    response.ret = ret_of(
        thunk().tile_config(request.tile_config_args.NodeId, tiles, macro_tiles, response.tile_config_rsp));
  });
  if (tile_bytes > 0) std::memcpy(reply.bytes().data() + sizeof(Response), tiles.data(), tile_bytes);
  if (macro_bytes > 0)
    std::memcpy(reply.bytes().data() + sizeof(Response) + tile_bytes, macro_tiles.data(), macro_bytes);
  return std::optional(std::move(reply));
}

RocmContext::Answer RocmContext::query_pointer_info(const QueryCommand& command) {
  const auto& request = command.request();
  hsa::HsaPointerInfo info{};
  std::vector<std::uint32_t> mapped_nodes;
  HsaStatus status = HsaStatus::kError;
  if (const ThunkMemory::Allocation* allocation = thunk().memory().find(request.pointer)) {
    status = HsaStatus::kSuccess;
    const bool user = allocation->kind == ThunkMemory::Kind::kUser;
    info.Type =
        user ? hsa::HSA_POINTER_REGISTERED_USER
             : (allocation->kfd_handle == 0 ? hsa::HSA_POINTER_RESERVED_ADDR : hsa::HSA_POINTER_ALLOCATED);
    info.Node = allocation->node_id;
    info.MemFlags = allocation->flags;
    info.GPUAddress = allocation->address;
    info.SizeInBytes = user ? allocation->user_size_bytes : allocation->size_bytes;
    info.CPUAddress = user ? allocation->user_address : allocation->address;
    for (const std::uint32_t gpu_id : allocation->mapped)
      mapped_nodes.push_back(thunk().topology().node_of_gpu(gpu_id));
    info.NMappedNodes = static_cast<std::uint32_t>(mapped_nodes.size());
    // The published host copies its own pointer out; that it is not null is all a guest can use.
    info.MappedNodes = mapped_nodes.empty() ? 0 : allocation->address;
  }
  const std::size_t payload_bytes = mapped_nodes.size() * sizeof(std::uint32_t);
  VhsakmtReply reply = TRY(make_reply(request.hdr, sizeof(Response) + payload_bytes));
  reply.edit<Response>([&](Response& response) {
    response.ret = ret_of(status);
    response.ptr_info = info;
  });
  if (payload_bytes > 0)
    std::memcpy(reply.bytes().data() + sizeof(Response), mapped_nodes.data(), payload_bytes);
  return std::optional(std::move(reply));
}

}  // namespace understudy::virtio_gpu
