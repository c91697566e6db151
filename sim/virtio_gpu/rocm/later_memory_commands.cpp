// The MEMORY commands that only the newer host has. Mirrors virglrenderer src/rocm/hsakmt_memory.c.
#include <fcntl.h>

#include <cstring>

#include "sim/virtio_gpu/rocm/rocm_context.h"
#include "uapi/amdgpu.h"
#include "uapi/drm.h"

namespace understudy::virtio_gpu {
namespace {

using Response = ccmd::vhsakmt_ccmd_memory_rsp;

std::int32_t ret_of(HsaStatus status) {
  return static_cast<std::int32_t>(status);
}

// libdrm's convention for amdgpu_* calls.
std::int32_t ret_of(const Result<int>& result) {
  return result ? 0 : -result.error().number();
}

}  // namespace

std::int32_t RocmContext::later_memory(const MemoryCommand& command, Response& response) {
  const auto& request = command.request();
  switch (request.type) {
    case ccmd::VHSAKMT_CCMD_MEMORY_EXPORT_DMABUF:
      return export_dma_buf(command, response);
    case ccmd::VHSAKMT_CCMD_MEMORY_AMDGPU_IMPORT:
      return import_dma_buf(command, response);
    case ccmd::VHSAKMT_CCMD_MEMORY_AMDGPU_EXPORT:
      return export_imported(command, response);
    case ccmd::VHSAKMT_CCMD_MEMORY_AMDGPU_VA_OP:
      return va_operation(command);
    case ccmd::VHSAKMT_CCMD_MEMORY_AMDGPU_BO_FREE:
      return free_imported(command);
    case ccmd::VHSAKMT_CCMD_MEMORY_SET_MEM_POLICY: {
      const auto& args = request.set_mem_policy_args;
      return ret_of(thunk().set_memory_policy(args.Node, args.DefaultPolicy, args.AlternatePolicy,
                                              args.MemoryAddressAlternate, args.MemorySizeInBytes));
    }
    case ccmd::VHSAKMT_CCMD_MEMORY_SVM_GET_ATTR:
      return svm_attributes(command, false);
    case ccmd::VHSAKMT_CCMD_MEMORY_SVM_SET_ATTR:
      return svm_attributes(command, true);
    case ccmd::VHSAKMT_CCMD_MEMORY_SHARE_MEMORY:
    case ccmd::VHSAKMT_CCMD_MEMORY_REGISTER_SHARED_HANDLE:
      return ret_of(HsaStatus::kNotSupported);
    default:
      return 0;  // as if done
  }
}

std::int32_t RocmContext::export_dma_buf(const MemoryCommand& command, Response& response) {
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object) return -EINVAL;
  if (object->dma_buf) {
    response.export_dmabuf_rsp.dmabuf_fd = object->dma_buf.get();
    response.export_dmabuf_rsp.offset = object->export_offset;
    return 0;
  }
  const ThunkMemory::Allocation* const allocation = thunk().memory().find(object->address);
  if (!allocation || allocation->kfd_handle == 0) return ret_of(HsaStatus::kInvalidParameter);
  uapi::kfd::kfd_ioctl_export_dmabuf_args args{};
  args.handle = allocation->kfd_handle;
  args.flags = O_CLOEXEC;
  if (!thunk().gpus().ioctl<uapi::kfd::ExportDmabuf>(args)) return ret_of(HsaStatus::kError);
  object->dma_buf = UniqueFd(static_cast<int>(args.dmabuf_fd));
  object->export_offset = response.export_dmabuf_rsp.offset = object->address - allocation->address;
  return 0;
}

std::int32_t RocmContext::import_dma_buf(const MemoryCommand& command, Response& response) {
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object || !object->dma_buf || thunk().gpus().all().empty()) return -EINVAL;
  uapi::drm::drm_prime_handle args{};
  args.fd = object->dma_buf.get();
  const Result<int> imported =
      thunk().process().ioctl<uapi::drm::PrimeFdToHandle>(thunk().gpus().all().front().render.file(), args);
  if (!imported) return ret_of(imported);
  object->imported_handle = args.handle;
  response.amdgpu_import_rsp.output.buf_handle = args.handle;
  response.amdgpu_import_rsp.output.alloc_size = object->size_bytes;
  return 0;
}

std::int32_t RocmContext::export_imported(const MemoryCommand& command, Response& response) {
  constexpr std::uint32_t kHandleTypeKms = 1;  // amdgpu_bo_handle_type_kms
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object || object->imported_handle == 0) return -EINVAL;
  if (command.request().amdgpu_export_args.type != kHandleTypeKms) return -EINVAL;
  response.shared_handle = object->imported_handle;
  return 0;
}

std::int32_t RocmContext::va_operation(const MemoryCommand& command) {
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object || thunk().gpus().all().empty()) return -EINVAL;
  const auto& asked = command.request().amdgpu_va_op_args;
  uapi::amdgpu::drm_amdgpu_gem_va args{};
  args.handle = object->imported_handle;
  args.operation = asked.ops;
  args.flags = static_cast<std::uint32_t>(asked.flags);
  args.va_address = asked.addr;
  args.offset_in_bo = asked.offset;
  args.map_size = asked.size;
  return ret_of(
      thunk().process().ioctl<uapi::amdgpu::GemVa>(thunk().gpus().all().front().render.file(), args));
}

std::int32_t RocmContext::free_imported(const MemoryCommand& command) {
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object) return -EINVAL;
  if (object->imported_handle == 0 || thunk().gpus().all().empty()) return 0;
  uapi::drm::drm_gem_close args{};
  args.handle = object->imported_handle;
  object->imported_handle = 0;
  return ret_of(
      thunk().process().ioctl<uapi::drm::GemClose>(thunk().gpus().all().front().render.file(), args));
}

std::int32_t RocmContext::svm_attributes(const MemoryCommand& command, bool set) {
  using Attribute = uapi::kfd::kfd_ioctl_svm_attribute;
  using Args = uapi::kfd::kfd_ioctl_svm_args;
  const auto& asked = command.request().svm_attr_args;
  const RocmObjectRef object = objects_.resource(command.request().res_id);
  if (!object) return -EINVAL;
  if (asked.nattr > ccmd::VHSAKMT_MEMORY_MAX_NATTR ||
      asked.nattr > command.payload.size() / sizeof(Attribute))
    return -EINVAL;
  std::vector<std::byte> bytes(sizeof(Args) + asked.nattr * sizeof(Attribute));
  Args args{};
  args.start_addr = object->address;
  args.size = asked.size;
  args.op = set ? uapi::kfd::KFD_IOCTL_SVM_OP_SET_ATTR : uapi::kfd::KFD_IOCTL_SVM_OP_GET_ATTR;
  args.nattr = asked.nattr;
  std::memcpy(bytes.data(), &args, sizeof args);
  if (asked.nattr > 0)
    std::memcpy(bytes.data() + sizeof args, command.payload.data(), asked.nattr * sizeof(Attribute));
  // The struct is followed by its attributes, and the number says how long all of it is.
  const std::uint32_t command_word =
      (uapi::kfd::Svm::kCmd & ~0x3fff'0000u) | static_cast<std::uint32_t>(bytes.size()) << 16;
  const Result<int> done = thunk().process().ioctl(thunk().gpus().kfd(), command_word, bytes);
  return done ? 0 : ret_of(HsaStatus::kError);
}

}  // namespace understudy::virtio_gpu
