// EVENT. Mirrors virglrenderer src/rocm/hsakmt_events.c: vhsakmt_ccmd_event.
#include "sim/virtio_gpu/rocm/rocm_context.h"

namespace understudy::virtio_gpu {
namespace {

using Response = ccmd::vhsakmt_ccmd_event_rsp;

std::int32_t ret_of(HsaStatus status) {
  return static_cast<std::int32_t>(status);
}

}  // namespace

RocmContext::Answer RocmContext::handle(const EventCommand& command) {
  const auto& request = command.request();
  if (request.type > hsa::VHSAKMT_CCMD_EVENT_SET_TRAP) {
    if (layout().unknown_event_stops) return Errno(EINVAL);
    return std::optional<VhsakmtReply>();
  }
  VhsakmtReply reply = TRY(make_reply(request.hdr, sizeof(Response)));
  // The host takes the guest's word for the address of an event; here it is looked up.
  const EventHandle handle{request.event_handle};
  ThunkEvents& host = thunk().events();
  reply.edit<Response>([&](Response& response) {
    switch (request.type) {
      case hsa::VHSAKMT_CCMD_EVENT_CREATE:
        response.ret = create_event(command, response);
        return;
      case hsa::VHSAKMT_CCMD_EVENT_DESTROY:
        if (const RocmObjectRef object = objects_.resource(request.res_id)) {
          objects_.remove_resource(request.res_id);
          free_object(object);
        } else if (request.event_handle != 0) {
          (void)host.destroy(handle);
        } else {
          response.ret = -EINVAL;
        }
        return;
      case hsa::VHSAKMT_CCMD_EVENT_SET:
        response.ret = ret_of(host.set(handle));
        return;
      case hsa::VHSAKMT_CCMD_EVENT_RESET:
        response.ret = ret_of(host.reset(handle));
        return;
      case hsa::VHSAKMT_CCMD_EVENT_QUERY_STATE:
        response.ret = ret_of(host.query_state(handle));
        return;
      case hsa::VHSAKMT_CCMD_EVENT_WAIT_ON_MULTI_EVENTS:
        response.ret = -ENOSYS;
        return;
      case hsa::VHSAKMT_CCMD_EVENT_SET_TRAP: {
        const auto& args = request.set_trap_handler_args;
        response.ret = ret_of(
            thunk().set_trap_handler(args.NodeId, args.TrapHandlerBaseAddress, args.TrapBufferBaseAddress));
        return;
      }
    }
  });
  return std::optional(std::move(reply));
}

std::int32_t RocmContext::create_event(const EventCommand& command, Response& response) {
  const auto& request = command.request();
  if (!objects_.blob_id_is_free(request.blob_id)) return -EINVAL;
  const auto& args = request.create_args;
  HsaResult<EventHandle> created =
      thunk().events().create(args.EventDesc, args.ManualReset != 0, args.IsSignaled != 0);
  if (!created) return ret_of(created.status());
  response.vevent.event = *thunk().events().find(created.value());
  response.vevent.event_handle = static_cast<std::uint64_t>(created.value());
  auto object = std::make_shared<RocmObject>();
  object->type = RocmObjectType::kEvent;
  object->address = static_cast<std::uint64_t>(created.value());
  object->size_bytes = sizeof(hsa::HsaEvent);
  object->event = created.value();
  objects_.add(request.blob_id, std::move(object));
  return 0;
}

}  // namespace understudy::virtio_gpu
