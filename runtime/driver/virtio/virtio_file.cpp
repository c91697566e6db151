#include "runtime/driver/virtio/virtio_file.h"

#include <cerrno>
#include <string>

#include "runtime/driver/ioctl.h"
#include "uapi/vhsakmt.h"
#include "uapi/virtgpu.h"
#include "uapi/virtgpu_variants.h"

namespace hsa_rt::virtio {
namespace {

namespace abi = uapi::virtgpu;
constexpr uint32_t kReadOnlyFlag = abi::variants::userptr_v4::VIRTGPU_BLOB_FLAG_USERPTR_RDONLY;

// The one ring whose fences the host retires.
constexpr uint32_t kRing = 0;

}  // namespace

Result<std::unique_ptr<VirtioFile>> VirtioFile::open() {
  constexpr int kFirstRenderMinor = 128;
  constexpr int kRenderMinors = 64;
  for (int minor = kFirstRenderMinor; minor < kFirstRenderMinor + kRenderMinors; ++minor) {
    Result<UniqueFd> node = open_node("/dev/dri/renderD" + std::to_string(minor));
    if (!node) continue;
    auto file = std::make_unique<VirtioFile>(std::move(node).value());
    const Result<std::string> name = file->driver_name();
    if (!name || name.value() != "virtio_gpu" || !file->has_rocm_context_type()) continue;
    TRY(file->make_context());
    return file;
  }
  return Errno{ENODEV};
}

bool VirtioFile::has_rocm_context_type() const {
  uapi::vhsakmt::virgl_renderer_capset_hsakmt capset{};
  abi::drm_virtgpu_get_caps args{};
  args.cap_set_id = uapi::vhsakmt::VIRGL_RENDERER_CAPSET_HSAKMT;
  args.addr = reinterpret_cast<uint64_t>(&capset);
  args.size = sizeof(capset);
  return driver_ioctl<abi::GetCaps>(fd(), args) &&
         capset.context_type == uapi::vhsakmt::VIRTGPU_DRM_CONTEXT_AMDGPU;
}

Result<void> VirtioFile::make_context() {
  abi::drm_virtgpu_context_set_param params[] = {
      {abi::VIRTGPU_CONTEXT_PARAM_CAPSET_ID, uapi::vhsakmt::VIRGL_RENDERER_CAPSET_HSAKMT},
      {abi::VIRTGPU_CONTEXT_PARAM_NUM_RINGS, kRing + 1},
  };
  abi::drm_virtgpu_context_init args{};
  args.num_params = std::size(params);
  args.ctx_set_params = reinterpret_cast<uint64_t>(params);
  return driver_ioctl<abi::ContextInit>(fd(), args);
}

Result<VirtioFile::Blob> VirtioFile::create_host_blob(uint64_t blob_id, uint64_t size_bytes, bool mappable) {
  abi::drm_virtgpu_resource_create_blob args{};
  args.blob_mem = abi::VIRTGPU_BLOB_MEM_HOST3D;
  args.blob_flags = mappable ? abi::VIRTGPU_BLOB_FLAG_USE_MAPPABLE : 0;
  args.size = size_bytes;
  args.blob_id = blob_id;
  TRY(driver_ioctl<abi::ResourceCreateBlob>(fd(), args));
  return Blob{adopt(args.bo_handle), args.res_handle};
}

Result<VirtioFile::UserBlob> VirtioFile::create_user_blob(uint64_t blob_id, const AddressSpan& pages,
                                                          bool read_only) {
  // Kernels with a shorter struct leave the tail alone; all of them have the pointer at the same place.
  abi::drm_virtgpu_resource_create_blob args{};
  args.blob_mem = abi::VIRTGPU_BLOB_MEM_HOST3D_GUEST;
  args.blob_flags = abi::VIRTGPU_BLOB_FLAG_USE_USERPTR | (read_only ? kReadOnlyFlag : 0);
  args.size = pages.size;
  args.blob_id = blob_id;
  args.blob_userptr = pages.base;
  const int known = TRY(retrying_ioctl(fd(), abi::ResourceCreateBlob::kCmd, &args));
  return UserBlob{{adopt(args.bo_handle), args.res_handle}, known != 0, static_cast<uint64_t>(args.offset)};
}

Result<uint64_t> VirtioFile::mmap_offset(const GemRef& gem) const {
  abi::drm_virtgpu_map args{};
  args.handle = gem.handle();
  TRY(driver_ioctl<abi::Map>(fd(), args));
  return args.offset;
}

Result<void> VirtioFile::submit(std::span<const std::byte> commands, const GemRef& gem) {
  const uint32_t handle = gem.handle();
  abi::drm_virtgpu_execbuffer args{};
  args.flags = abi::VIRTGPU_EXECBUF_RING_IDX;
  args.ring_idx = kRing;
  args.command = reinterpret_cast<uint64_t>(commands.data());
  args.size = static_cast<uint32_t>(commands.size());
  args.bo_handles = reinterpret_cast<uint64_t>(&handle);
  args.num_bo_handles = 1;
  TRY(driver_ioctl<abi::Execbuffer>(fd(), args));
  abi::drm_virtgpu_3d_wait wait{};
  wait.handle = handle;
  return driver_ioctl<abi::Wait>(fd(), wait);
}

}  // namespace hsa_rt::virtio
