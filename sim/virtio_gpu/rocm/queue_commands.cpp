// QUEUE and GL_INTER. Mirrors virglrenderer src/rocm/hsakmt_queues.c, hsakmt_memory.c: vhsakmt_ccmd_gl_inter.
#include <cstring>

#include "sim/virtio_gpu/rocm/rocm_context.h"

namespace understudy::virtio_gpu {
namespace {

using Response = ccmd::vhsakmt_ccmd_queue_rsp;

constexpr std::uint32_t kNoSdmaEngine = 0xffff'ffff;
constexpr std::uint32_t kGfx900 = 0x9'0000;

std::int32_t ret_of(HsaStatus status) {
  return static_cast<std::int32_t>(status);
}

}  // namespace

RocmContext::Answer RocmContext::handle(const QueueCommand& command) {
  const auto& request = command.request();
  const std::uint32_t last =
      layout().has_later_commands ? ccmd::VHSAKMT_CCMD_QUEUE_ALLOC_GWS : hsa::VHSAKMT_CCMD_QUEUE_DESTROY;
  if (request.type > last) return std::optional<VhsakmtReply>();

  VhsakmtReply reply = TRY(make_reply(request.hdr, layout().queue_response_bytes));
  reply.edit<Response>([&](Response& response) {
    switch (request.type) {
      case hsa::VHSAKMT_CCMD_QUEUE_CREATE:
        response.ret = create_queue(command, response);
        return;
      case hsa::VHSAKMT_CCMD_QUEUE_DESTROY:
        if (const RocmObjectRef object = objects_.resource(request.res_id)) {
          objects_.remove_resource(request.res_id);
          free_object(object);
        } else {
          response.ret = ret_of(thunk().queues().destroy(QueueHandle{request.QueueId}));
        }
        return;
      default:
        response.ret = later_queue(command);
    }
  });
  return std::optional(std::move(reply));
}

std::int32_t RocmContext::create_queue(const QueueCommand& command, Response& response) {
  const auto& request = command.request();
  const auto& args = request.create_queue_args;
  const TopologyNode* const node = thunk().topology().node(args.NodeId);
  if (!node) return ret_of(HsaStatus::kInvalidNode);
  // Every blob is checked before anything is made; the published host finds out one by one and leaves the
  // rest.
  for (const std::uint64_t blob_id : {request.blob_id, request.rw_ptr_blob_id, request.doorbell_blob_id}) {
    const bool needed = blob_id == request.blob_id;
    if (blob_id == 0 ? needed : !objects_.blob_id_is_free(blob_id)) return -EINVAL;
  }

  const bool is_aql = args.Type == hsa::HSA_QUEUE_COMPUTE_AQL;
  std::vector<RocmObjectRef> memories;
  if (is_aql) {
    for (const std::uint32_t resource_id : {request.res_id, request.queue_mem_res_id}) {
      if (resource_id == 0) continue;
      const RocmObjectRef memory = objects_.resource(resource_id);
      // The published host destroys the queue again, and forgets to say that anything was wrong.
      if (!memory) return backend_.strict() ? -EINVAL : 0;
      memories.push_back(memory);
    }
  }

  QueueRequest queue;
  queue.node_id = args.NodeId;
  queue.type = args.Type;
  queue.percentage = args.QueuePercentage;
  queue.priority = static_cast<std::int32_t>(args.Priority);
  queue.sdma_engine = args.SdmaEngineId == kNoSdmaEngine ? 0 : args.SdmaEngineId;
  queue.ring_address = args.QueueAddress;
  queue.ring_bytes = args.QueueSizeInBytes;
  auto& resource = response.vqueue_res;
  resource.r.Queue_write_ptr_aql = args.Queue_write_ptr_aql;
  resource.r.Queue_read_ptr_aql = args.Queue_read_ptr_aql;
  const HsaStatus status = thunk().queues().create(queue, resource.r);
  if (status != HsaStatus::kSuccess) {
    resource = {};
    return ret_of(status);
  }

  const QueueHandle handle{resource.r.QueueId};
  resource.queue_handle = resource.r.QueueId;
  resource.host_doorbell = resource.r.QueueDoorBell;
  resource.host_doorbell_offset = resource.r.QueueDoorBell - ThunkQueues::doorbell_address(args.NodeId);
  if (request.doorbell_blob_id != 0) {
    auto doorbell = std::make_shared<RocmObject>();
    doorbell->type = RocmObjectType::kDoorbell;
    doorbell->address = ThunkQueues::doorbell_address(args.NodeId);
    doorbell->size_bytes = node->gfx_version() > kGfx900 ? 2 * kGuestPageBytes : kGuestPageBytes;
    doorbell->node_id = args.NodeId;
    objects_.add(request.doorbell_blob_id, std::move(doorbell));
  }
  if (request.rw_ptr_blob_id != 0 && !is_aql) {
    resource.host_rw_handle = resource.r.QueueWptrValue & ~(kGuestPageBytes - 1);
    resource.host_write_offset = resource.r.QueueWptrValue - resource.host_rw_handle;
    resource.host_read_offset = resource.r.QueueRptrValue - resource.host_rw_handle;
    auto pointers = std::make_shared<RocmObject>();
    pointers->type = RocmObjectType::kQueuePointers;
    pointers->address = resource.host_rw_handle;
    pointers->size_bytes = kGuestPageBytes;
    pointers->queue = handle;
    objects_.add(request.rw_ptr_blob_id, std::move(pointers));
  }

  auto object = std::make_shared<RocmObject>();
  object->type = RocmObjectType::kQueue;
  object->address = resource.r.QueueId;
  object->size_bytes = sizeof(hsa::vHsaQueueResource);
  object->queue = handle;
  for (const RocmObjectRef& memory : memories) {
    memory->type = RocmObjectType::kQueueMemory;
    memory->used_by_queue = object;
  }
  object->queue_memory = std::move(memories);
  objects_.add(request.blob_id, std::move(object));
  return 0;
}

std::int32_t RocmContext::later_queue(const QueueCommand& command) {
  const auto& request = command.request();
  const RocmObjectRef object = objects_.resource(request.res_id);
  const QueueHandle handle = object ? object->queue : QueueHandle{request.QueueId};
  switch (request.type) {
    case ccmd::VHSAKMT_CCMD_QUEUE_UPDATE: {
      const auto& args = request.update_queue_args;
      return ret_of(thunk().queues().update(object ? handle : QueueHandle{args.QueueId}, args.QueuePercentage,
                                            static_cast<std::int32_t>(args.Priority), args.QueueAddress,
                                            args.QueueSizeInBytes));
    }
    case ccmd::VHSAKMT_CCMD_QUEUE_SET_CU_MASK: {
      const std::size_t words = command.payload.size() / sizeof(std::uint32_t);
      const std::size_t wanted = request.CUMaskCount / 32;
      if (wanted > ccmd::VHSAKMT_CCMD_QUEUE_MAX_CU_MASK_SIZE || wanted > words) return -EINVAL;
      std::vector<std::uint32_t> mask(wanted);
      if (!mask.empty()) std::memcpy(mask.data(), command.payload.data(), mask.size() * sizeof mask[0]);
      return ret_of(thunk().queues().set_cu_mask(handle, mask));
    }
    case ccmd::VHSAKMT_CCMD_QUEUE_ALLOC_GWS:
      if (request.nGWS > ccmd::VHSAKMT_CCMD_QUEUE_MAX_GWS_SIZE) return -EINVAL;
      return ret_of(thunk().queues().allocate_gws(handle, request.nGWS).status());
    default:  // GET_INFO wants wave state, of which there is none
      return ret_of(HsaStatus::kNotSupported);
  }
}

// Interoperation needs a buffer of a graphics context, of which this renderer has none.
RocmContext::Answer RocmContext::handle(const GlCommand& command) {
  const auto& request = command.request();
  if (request.type != hsa::VHSAKMT_CCMD_GL_REG_GHD_TO_NODES) return std::optional<VhsakmtReply>();
  return answer_with(request.hdr, sizeof(ccmd::vhsakmt_ccmd_gl_inter_rsp), ret_of(HsaStatus::kInvalidHandle));
}

}  // namespace understudy::virtio_gpu
