// RESOURCE_CREATE_BLOB in all its sizes. Mirrors virtio/virtgpu_ioctl.c: verify_blob,
// virtio_gpu_resource_create_blob_ioctl, and the userptr series.
#include "sim/virtio_gpu/guest/blob_ioctls.h"

#include <algorithm>

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint32_t kCrossDevice = guest_abi::VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE;
constexpr std::uint32_t kUseUserptr = guest_abi::VIRTGPU_BLOB_FLAG_USE_USERPTR;
constexpr std::uint32_t kReadOnly = guest_abi::variants::userptr_v4::VIRTGPU_BLOB_FLAG_USERPTR_RDONLY;
constexpr std::uint32_t kDeferMapping =
    guest_abi::variants::blob_hints::DRM_VIRTGPU_BLOB_FLAG_HINT_DEFER_MAPPING;

}  // namespace

Result<void> VirtioGpuFile::verify_blob(const BlobArguments& args) const {
  const KernelFlavour& kernel = gpu().kernel();
  if (!gpu().has_blob()) return Errno(EINVAL);
  if ((args.blob_flags & ~kernel.blob_flags) != 0) return Errno(EINVAL);
  if ((args.blob_flags & kCrossDevice) != 0 && !gpu().has_uuid()) return Errno(EINVAL);

  if (kernel.userptr != UserptrKind::kNone) {
    const bool uses_userptr = (args.blob_flags & kUseUserptr) != 0;
    const bool uses_svm = kernel.svm_flag != 0 && (args.blob_flags & kernel.svm_flag) != 0;
    if (uses_userptr != (args.userptr != 0)) return Errno(EINVAL);
    if (uses_svm && args.svm == 0) return Errno(EINVAL);
    if (!uses_userptr && !uses_svm && (args.blob_flags & kReadOnly) != 0) return Errno(EINVAL);
  }
  if (kernel.has_blob_hints && (args.hints & ~kDeferMapping) != 0) return Errno(EINVAL);

  switch (args.blob_mem) {
    case guest_abi::VIRTGPU_BLOB_MEM_GUEST:
      if (args.blob_id != 0 || args.command_bytes != 0) return Errno(EINVAL);
      return {};
    case guest_abi::VIRTGPU_BLOB_MEM_HOST3D:
    case guest_abi::VIRTGPU_BLOB_MEM_HOST3D_GUEST:
      if (!gpu().has_3d() || args.command_bytes % 4 != 0) return Errno(EINVAL);
      return {};
    default:
      return Errno(EINVAL);
  }
}

Result<BlobAnswer> VirtioGpuFile::create_blob(Call& call, const BlobArguments& args) {
  TRY(verify_blob(args));
  if (gpu().has_3d()) ensure_context(&call);

  if (args.command_bytes != 0) {
    if (args.command_bytes > kLargestCommandBytes) return Errno(ENOMEM);
    Submit3d submit;
    submit.body.hdr.ctx_id = context_id_;
    submit.body.size = args.command_bytes;
    ControlQueue::Entry entry;
    entry.command = encode_command(submit);
    entry.data = TRY(call.memory().read_array<std::byte>(args.command, args.command_bytes));
    gpu().control().queue(std::move(entry));
  }

  if (std::optional<BlobAnswer> existing = find_user_object(args)) return *existing;
  const ObjectRef object = TRY(make_blob_object(call, args));
  const drm::GemHandle handle = TRY(handles().create(&call, object));
  BlobAnswer answer;
  answer.bo_handle = static_cast<std::uint32_t>(handle);
  answer.resource_id = object->resource_id();
  remember_user_object(answer.bo_handle, object);
  return answer;
}

Result<ObjectRef> VirtioGpuFile::make_blob_object(Call& call, const BlobArguments& args) {
  ObjectSpec spec;
  spec.size_bytes = args.size_bytes;
  spec.blob_mem = args.blob_mem;
  spec.blob_flags = args.blob_flags;
  spec.defer_mapping = (args.hints & kDeferMapping) != 0;
  if (spec.in_host()) {
    spec.context_id = context_id_;
    spec.blob_id = args.blob_id;
  }
  // HOST3D makes an object without pages, whatever the userptr says; the host will refuse the flag.
  if (!spec.in_guest()) return VramObject::create(gpu(), &call, spec);
  const std::uint64_t address = user_address(args);
  if (address == 0) return ShmemObject::create(gpu(), &call, spec, nullptr);
  const bool read_only = (args.blob_flags & kReadOnly) != 0;
  return UserptrObject::create(gpu(), &call, spec,
                               {call.caller().client, address, args.size_bytes, read_only});
}

std::uint64_t VirtioGpuFile::user_address(const BlobArguments& args) const {
  const std::uint32_t svm_flag = gpu().kernel().svm_flag;
  if (svm_flag != 0 && (args.blob_flags & svm_flag) != 0) return args.svm;
  return gpu().kernel().userptr == UserptrKind::kNone ? 0 : args.userptr;
}

bool VirtioGpuFile::is_deduplicated(std::uint32_t blob_flags) const {
  const KernelFlavour& kernel = gpu().kernel();
  if (kernel.userptr != UserptrKind::kDeduplicated) return false;
  return (blob_flags & (kernel.svm_flag != 0 ? kernel.svm_flag : kUseUserptr)) != 0;
}

// A request that lies inside an object which is not on its way out gets that object's own handle, without a
// reference: whoever closes it first closes it for all.
std::optional<BlobAnswer> VirtioGpuFile::find_user_object(const BlobArguments& args) {
  std::uint64_t end = 0;
  const std::uint64_t start = user_address(args);
  if (!is_deduplicated(args.blob_flags) || __builtin_add_overflow(start, args.size_bytes, &end))
    return std::nullopt;
  const std::lock_guard lock(user_objects_mutex_);
  std::erase_if(user_objects_, [](const UserObject& known) { return known.object.expired(); });
  for (const UserObject& known : user_objects_) {
    const ObjectRef object = known.object.lock();
    if (!object || start < known.start || end > known.end || !handles().holds(*object)) continue;
    const std::uint64_t page = start & ~(kGuestPageBytes - 1);
    return BlobAnswer{known.handle, object->resource_id(), true, page - known.start};
  }
  return std::nullopt;
}

void VirtioGpuFile::remember_user_object(std::uint32_t handle, const ObjectRef& object) {
  if (!is_deduplicated(object->spec().blob_flags)) return;
  const auto* user = dynamic_cast<const UserptrObject*>(object.get());
  if (!user) return;
  const std::uint64_t start = user->range().address & ~(kGuestPageBytes - 1);
  const std::lock_guard lock(user_objects_mutex_);
  user_objects_.push_back({start, start + user->size_bytes(), handle, object});
}

}  // namespace understudy::virtio_gpu
