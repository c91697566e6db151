// MAP, GETPARAM, GET_CAPS, RESOURCE_INFO, WAIT. Mirrors virtio/virtgpu_ioctl.c.
#include <algorithm>

#include "sim/core/machine.h"
#include "sim/virtio_gpu/guest/fence_wait.h"
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kCapsetPatienceNs = 5 * kNsPerSecond;
constexpr std::uint64_t kResourcePatienceNs = 15 * kNsPerSecond;

}  // namespace

Outcome VirtioGpuFile::map(Call&, guest_abi::drm_virtgpu_map& args) {
  const ObjectRef object = TRY(lookup(args.handle));
  args.offset = object->map_offset_bytes();
  return 0;
}

Outcome VirtioGpuFile::get_param(Call& call, guest_abi::drm_virtgpu_getparam& args) {
  // Only an int reaches the caller, although the field is a pointer to anything.
  std::int32_t value = 0;
  switch (args.param) {
    case guest_abi::VIRTGPU_PARAM_3D_FEATURES:
      value = gpu().has_3d();
      break;
    case guest_abi::VIRTGPU_PARAM_CAPSET_QUERY_FIX:
      value = 1;
      break;
    case guest_abi::VIRTGPU_PARAM_RESOURCE_BLOB:
      value = gpu().has_blob();
      break;
    case guest_abi::VIRTGPU_PARAM_HOST_VISIBLE:
      value = gpu().has_host_visible();
      break;
    case guest_abi::VIRTGPU_PARAM_CROSS_DEVICE:
      value = gpu().has_uuid();
      break;
    case guest_abi::VIRTGPU_PARAM_CONTEXT_INIT:
      value = gpu().has_context_init();
      break;
    case guest_abi::VIRTGPU_PARAM_SUPPORTED_CAPSET_IDs:
      value = static_cast<std::int32_t>(gpu().capset_mask());
      break;
    case guest_abi::VIRTGPU_PARAM_EXPLICIT_DEBUG_NAME:
      if (!gpu().kernel().has_debug_name) return Errno(EINVAL);
      value = gpu().has_context_init();
      break;
    default:
      return Errno(EINVAL);
  }
  return call.memory().write_value(args.value, value);
}

Outcome VirtioGpuFile::get_caps(Call& call, guest_abi::drm_virtgpu_get_caps& args) {
  const std::vector<CapsetAnnouncement>& capsets = gpu().capsets();
  if (capsets.empty()) return Errno(ENOSYS);
  if (args.size == 0) return Errno(EINVAL);
  const auto found = std::ranges::find_if(capsets, [&](const CapsetAnnouncement& capset) {
    return capset.id == args.cap_set_id && capset.max_version >= args.cap_set_ver;
  });
  if (found == capsets.end()) return Errno(EINVAL);

  const CapsetContentRef content = gpu().capset_content(*found, args.cap_set_ver);
  const std::uint32_t size_bytes = std::min(args.size, found->max_size_bytes);
  const CallRef caller = call.shared_from_this();
  return FenceWait::start(call, {content->arrived}, {kCapsetPatienceNs, FenceWait::Interruptible::kNo},
                          [caller, content, size_bytes, address = args.addr](WaitEnd end) -> Outcome {
                            if (end == WaitEnd::kTimedOut) return Errno(EBUSY);
                            return caller->memory().write(address,
                                                          std::span(content->bytes).first(size_bytes));
                          });
}

Outcome VirtioGpuFile::resource_info(Call&, guest_abi::drm_virtgpu_resource_info& args) {
  const ObjectRef object = TRY(lookup(args.bo_handle));
  args.size = static_cast<std::uint32_t>(object->size_bytes());
  args.res_handle = object->resource_id();
  if (object->spec().is_blob()) args.blob_mem = object->spec().blob_mem;
  return 0;
}

Outcome VirtioGpuFile::wait(Call& call, guest_abi::drm_virtgpu_3d_wait& args) {
  const ObjectRef object = TRY(lookup(args.handle));
  const std::vector<drm::FenceRef> pending = object->reservation().pending();
  if ((args.flags & guest_abi::VIRTGPU_WAIT_NOWAIT) != 0)
    return pending.empty() ? Outcome(0) : Outcome(Errno(EBUSY));
  return FenceWait::start(call, pending, {kResourcePatienceNs}, [object](WaitEnd end) -> Outcome {
    if (end == WaitEnd::kInterrupted) return Errno(EINTR);
    return end == WaitEnd::kSignalled ? Outcome(0) : Outcome(Errno(EBUSY));
  });
}

}  // namespace understudy::virtio_gpu
