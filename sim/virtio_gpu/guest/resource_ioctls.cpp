// RESOURCE_CREATE and the transfers. Mirrors virtio/virtgpu_ioctl.c.
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint32_t kTexture2d = 2;  // PIPE_TEXTURE_2D

// Both sides see the same pages; there is nothing to transfer.
bool is_pure_guest_blob(const VirtioGpuObject& object) {
  return object.spec().in_guest() && !object.spec().in_host();
}

}  // namespace

Outcome VirtioGpuFile::resource_create(Call& call, guest_abi::drm_virtgpu_resource_create& args) {
  ObjectSpec spec;
  if (gpu().has_3d()) {
    ensure_context(&call);
    spec.texture.target = args.target;
    spec.texture.bind = args.bind;
    spec.texture.depth = args.depth;
    spec.texture.array_size = args.array_size;
    spec.texture.last_level = args.last_level;
    spec.texture.nr_samples = args.nr_samples;
    spec.texture.flags = args.flags;
  } else {
    if (args.depth > 1 || args.nr_samples > 1 || args.last_level > 1 || args.target != kTexture2d ||
        args.array_size > 1)
      return Errno(EINVAL);
  }
  spec.texture.format = args.format;
  spec.texture.width = args.width;
  spec.texture.height = args.height;
  spec.size_bytes = args.size == 0 ? kGuestPageBytes : args.size;

  const ObjectRef object = TRY(ShmemObject::create(gpu(), &call, spec, gpu().fences().make()));
  const drm::GemHandle handle = TRY(handles().create(&call, object));
  args.res_handle = object->resource_id();
  args.bo_handle = static_cast<std::uint32_t>(handle);
  return 0;
}

Outcome VirtioGpuFile::transfer_from_host(Call& call, guest_abi::drm_virtgpu_3d_transfer_from_host& args) {
  if (!gpu().has_3d()) return Errno(ENOSYS);
  ensure_context(&call);
  const ObjectRef object = TRY(lookup(args.bo_handle));
  if (is_pure_guest_blob(*object)) return Errno(EINVAL);
  return transfer(object, false, args.box, args.offset, args.level, args.stride, args.layer_stride);
}

Outcome VirtioGpuFile::transfer_to_host(Call& call, guest_abi::drm_virtgpu_3d_transfer_to_host& args) {
  const ObjectRef object = TRY(lookup(args.bo_handle));
  if (is_pure_guest_blob(*object)) return Errno(EINVAL);
  if (gpu().has_3d()) {
    ensure_context(&call);
    return transfer(object, true, args.box, args.offset, args.level, args.stride, args.layer_stride);
  }
  // 2D: neither level nor strides are looked at, and there is no fence.
  TransferToHost2d command;
  command.body.resource_id = object->resource_id();
  command.body.r = {args.box.x, args.box.y, args.box.w, args.box.h};
  command.body.offset = args.offset;
  ControlQueue::Entry entry;
  entry.command = encode_command(command);
  entry.objects.push_back(object);
  gpu().control().queue(std::move(entry));
  gpu().control().notify();
  return 0;
}

Outcome VirtioGpuFile::transfer(const ObjectRef& object, bool to_host,
                                const guest_abi::drm_virtgpu_3d_box& box, std::uint32_t offset,
                                std::uint32_t level, std::uint32_t stride, std::uint32_t layer_stride) {
  if (!object->spec().in_host() && (stride != 0 || layer_stride != 0)) return Errno(EINVAL);

  abi::virtio_gpu_transfer_host_3d body{};
  body.hdr.ctx_id = context_id_;
  body.box = {box.x, box.y, box.z, box.w, box.h, box.d};
  body.offset = offset;
  body.resource_id = object->resource_id();
  body.level = level;
  body.stride = stride;
  body.layer_stride = layer_stride;
  ControlQueue::Entry entry;
  entry.command = to_host ? encode_command(TransferToHost3d{body}) : encode_command(TransferFromHost3d{body});
  entry.fence = gpu().fences().make();
  entry.objects.push_back(object);
  gpu().control().queue(std::move(entry));
  gpu().control().notify();
  return 0;
}

}  // namespace understudy::virtio_gpu
