// MEMORY. Mirrors virglrenderer src/rocm/hsakmt_memory.c: vhsakmt_ccmd_memory.
#include <cstring>

#include "sim/virtio_gpu/rocm/rocm_context.h"

namespace understudy::virtio_gpu {
namespace {

using Response = ccmd::vhsakmt_ccmd_memory_rsp;

constexpr std::uint64_t kHugePageBytes = kGuestPageBytes << 9;

std::int32_t ret_of(HsaStatus status) {
  return static_cast<std::int32_t>(status);
}

bool is_power_of_two(std::uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

}  // namespace

RocmContext::Answer RocmContext::handle(const MemoryCommand& command) {
  VhsakmtReply reply = TRY(make_reply(command.request().hdr, layout().memory_response_bytes));
  reply.edit<Response>([&](Response& response) { response.ret = memory(command, response); });
  return std::optional(std::move(reply));
}

std::int32_t RocmContext::memory(const MemoryCommand& command, Response& response) {
  const auto& request = command.request();
  ThunkMemory& host = thunk().memory();
  switch (request.type) {
    case hsa::VHSAKMT_CCMD_MEMORY_ALLOC:
      return allocate(command, response.memory_handle);
    case hsa::VHSAKMT_CCMD_MEMORY_MAP_TO_GPU_NODES: {
      const auto& args = request.map_to_GPU_nodes_args;
      // The published host trusts the number; the nodes lie in the payload or nowhere.
      if (args.NumberOfNodes > command.payload.size() / sizeof(std::uint32_t)) return -EINVAL;
      std::vector<std::uint32_t> nodes(args.NumberOfNodes);
      if (!nodes.empty()) std::memcpy(nodes.data(), command.payload.data(), nodes.size() * sizeof nodes[0]);
      return ret_of(
          host.map_on_nodes(args.MemoryAddress, args.MemorySizeInBytes, nodes, response.alternate_vagpu));
    }
    case hsa::VHSAKMT_CCMD_MEMORY_FREE:
      return ret_of(host.free(request.free_args.MemoryAddress));
    case hsa::VHSAKMT_CCMD_MEMORY_UNMAP_TO_GPU:
      return ret_of(host.unmap(request.MemoryAddress));
    case hsa::VHSAKMT_CCMD_MEMORY_AVAIL_MEM: {
      HsaResult<std::uint64_t> available = host.available_bytes(request.Node);
      if (available) response.available_bytes = available.value();
      return ret_of(available.status());
    }
    case hsa::VHSAKMT_CCMD_MEMORY_MAP_MEM_TO_GPU: {
      const auto& args = request.map_to_GPU_args;
      const HsaStatus status = host.map(args.MemoryAddress, args.MemorySizeInBytes, response.alternate_vagpu);
      if (status == HsaStatus::kSuccess && args.need_create_bo != 0) {
        if (!objects_.blob_id_is_free(request.blob_id)) return -EINVAL;
        auto object = std::make_shared<RocmObject>();
        object->type = RocmObjectType::kScratchMap;
        object->address = args.MemoryAddress;
        object->size_bytes = args.MemorySizeInBytes;
        objects_.add(request.blob_id, std::move(object));
      }
      return ret_of(status);
    }
    case hsa::VHSAKMT_CCMD_MEMORY_REG_MEM_WITH_FLAG:
      return register_memory(command);
    case hsa::VHSAKMT_CCMD_MEMORY_DEREG_MEM:
      return deregister_memory(command);
    case hsa::VHSAKMT_CCMD_MEMORY_MAP_USERPTR: {
      const RocmObjectRef object = objects_.resource(request.res_id);
      if (!object) return -EINVAL;
      response.map_userptr_rsp.userptr_handle = object->address;
      response.map_userptr_rsp.npfns = static_cast<std::uint32_t>(
          layout().userptr_size_in_pages ? object->size_bytes / kGuestPageBytes : object->size_bytes);
      return 0;
    }
    default:
      if (layout().has_later_commands) return later_memory(command, response);
      return layout().refuses_unknown_memory ? -ENOSYS : 0;
  }
}

std::int32_t RocmContext::allocate(const MemoryCommand& command, std::uint64_t& handle) {
  const auto& request = command.request();
  const auto& args = request.alloc_args;
  handle = 0;
  if (!objects_.blob_id_is_free(request.blob_id)) return -EINVAL;

  hsa::HsaMemFlags flags = args.MemFlags;
  flags.ui32.FixedAddress = 1;
  ThunkMemory& host = thunk().memory();
  HsaResult<std::uint64_t> address = HsaStatus::kError;
  if (flags.ui32.Scratch) {
    std::int32_t refusal = 0;
    address = allocate_scratch(args.PreferredNode, args.SizeInBytes, flags, refusal);
    if (refusal != 0) return refusal;
  } else if (flags.ui32.NoAddress && layout().one_arena) {
    flags.ui32.FixedAddress = 0;
    address = host.allocate(args.PreferredNode, args.SizeInBytes, flags, 0);
  } else {
    const bool on_host =
        args.PreferredNode == 0 || !flags.ui32.NonPaged || flags.ui32.GTTAccess || flags.ui32.OnlyAddress;
    if (on_host && args.Alignment != 0 && !is_power_of_two(args.Alignment)) return -EINVAL;
    const std::uint64_t alignment =
        on_host ? std::max<std::uint64_t>(args.Alignment, kGuestPageBytes) : kHugePageBytes;
    const auto place = arena_->allocate(args.SizeInBytes, alignment);
    if (!place) return -ENOMEM;
    address = host.allocate(args.PreferredNode, args.SizeInBytes, flags, *place);
    if (!address) arena_->free(*place);
  }
  if (!address) return ret_of(address.status());

  auto object = std::make_shared<RocmObject>();
  object->address = address.value();
  object->size_bytes = args.SizeInBytes;
  object->flags = flags;
  objects_.add(request.blob_id, std::move(object));
  handle = address.value();
  return 0;
}

// Scratch is a range of addresses; the library reserves a node's whole range at the first use.
HsaResult<std::uint64_t> RocmContext::allocate_scratch(std::uint32_t node_id, std::uint64_t size_bytes,
                                                       const hsa::HsaMemFlags& flags, std::int32_t& refusal) {
  RocmBackend::Scratch* const scratch = backend_.scratch(node_id);
  if (!scratch) return HsaStatus::kInvalidNode;
  if (!scratch->reserved) {
    HsaResult<std::uint64_t> reserved =
        thunk().memory().allocate(node_id, scratch->arena.size_bytes(), flags, scratch->arena.base());
    if (!reserved) return reserved.status();
    scratch->reserved = true;
  }
  const auto address = scratch->arena.allocate(size_bytes, kGuestPageBytes);
  if (!address) {
    refusal = -ENOMEM;
    return HsaStatus::kNoMemory;
  }
  return *address;
}

std::int32_t RocmContext::register_memory(const MemoryCommand& command) {
  const auto& request = command.request();
  const auto& args = request.reg_mem_with_flag;
  ThunkMemory& host = thunk().memory();
  if (!layout().registers_by_resource) {
    const HsaStatus status = host.register_user(args.MemoryAddress, args.MemorySizeInBytes, args.MemFlags);
    if (const RocmObjectRef object = objects_.resource(request.res_id);
        status == HsaStatus::kSuccess && object && object->type == RocmObjectType::kUserptr)
      ++object->registrations;
    return ret_of(status);
  }
  const RocmObjectRef object = objects_.resource(request.res_id);
  if (!object) return -EINVAL;
  if (object->type != RocmObjectType::kUserptr)
    return ret_of(host.register_user(args.MemoryAddress, args.MemorySizeInBytes, args.MemFlags));
  if (object->registrations == 0 && !fill_view(*object)) return -EFAULT;
  const HsaStatus status = host.register_user(object->address, object->size_bytes, args.MemFlags);
  if (status == HsaStatus::kSuccess) {
    ++object->registrations;
  } else if (object->registrations == 0) {
    thunk().process().memory().unmap_view(object->address);
  }
  return ret_of(status);
}

std::int32_t RocmContext::deregister_memory(const MemoryCommand& command) {
  const auto& request = command.request();
  const HsaStatus status = thunk().memory().deregister(request.MemoryAddress);
  if (request.res_id == 0) return ret_of(status);
  const RocmObjectRef object = objects_.resource(request.res_id);
  // A bit test on an enumeration: true of everything but host memory and scratch maps.
  if (object && (static_cast<unsigned>(object->type) & static_cast<unsigned>(RocmObjectType::kDmaBuf)) != 0) {
    objects_.remove_resource(request.res_id);
    free_object(object);
  }
  return ret_of(status);
}

}  // namespace understudy::virtio_gpu
