// VirtioGpuFile: one open of a virtio-gpu node: its context on the host, and the driver's ioctls.
//
// Owner: FileTable. Units: bytes. Errors: each handler mirrors its ioctl. Thread-safety: handlers run in
// parallel; context state locks. Mirrors: struct virtio_gpu_fpriv; virtio/virtgpu_ioctl.c, virtgpu_submit.c.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/drm/drm_file.h"
#include "sim/virtio_gpu/guest/virtio_gpu_device.h"
#include "sim/virtio_gpu/guest/virtio_gpu_object.h"
#include "uapi/virtgpu.h"
#include "uapi/virtgpu_variants.h"

namespace understudy::virtio_gpu {

namespace guest_abi = uapi::virtgpu;

// Longer command streams do not fit in the guest kernel's memory: ENOMEM.
inline constexpr std::uint32_t kLargestCommandBytes = 64 << 20;

// RESOURCE_CREATE_BLOB in all its sizes.
struct BlobArguments {
  std::uint32_t blob_mem = 0;
  std::uint32_t blob_flags = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t command_bytes = 0;
  std::uint64_t command = 0;
  std::uint64_t blob_id = 0;
  std::uint64_t userptr = 0;
  std::uint64_t svm = 0;
  std::uint32_t hints = 0;
};
struct BlobAnswer {
  std::uint32_t bo_handle = 0;
  std::uint32_t resource_id = 0;
  // A deduplicated request was served by an object that existed: the ioctl returns 1.
  bool existed = false;
  // From the start of the object to what was asked for.
  std::uint64_t offset_bytes = 0;
};

// EXECBUFFER, in both sizes.
struct SubmitArguments {
  std::uint32_t flags = 0;
  std::uint32_t size_bytes = 0;
  std::uint64_t command = 0;
  std::uint64_t bo_handles = 0;
  std::uint32_t bo_handle_count = 0;
  std::int32_t fence_fd = -1;
  std::uint32_t ring_index = 0;
  std::uint32_t syncobj_stride_bytes = 0;
  std::uint32_t in_syncobj_count = 0;
  std::uint32_t out_syncobj_count = 0;
  std::uint64_t in_syncobjs = 0;
  std::uint64_t out_syncobjs = 0;
};

class VirtioGpuFile : public drm::DrmFile {
 public:
  // `opener_name` is the task's comm: what the context is called on the host.
  VirtioGpuFile(VirtioGpuDevice& gpu, drm::NodeType type, std::string label, dev_t device_number,
                std::string opener_name);
  ~VirtioGpuFile() override;

  VirtioGpuDevice& gpu() const { return static_cast<VirtioGpuDevice&>(device()); }
  std::uint32_t context_id() const { return context_id_; }

  // The context on the host, made at first use.
  void ensure_context(const Call* call = nullptr);

  bool has_read() const override { return true; }
  void release() override;

  // Handlers; see the table in kernel_flavour.cpp.
  Outcome map(Call& call, guest_abi::drm_virtgpu_map& args);
  Outcome get_param(Call& call, guest_abi::drm_virtgpu_getparam& args);
  Outcome get_caps(Call& call, guest_abi::drm_virtgpu_get_caps& args);
  Outcome context_init(Call& call, guest_abi::drm_virtgpu_context_init& args);
  Outcome resource_create(Call& call, guest_abi::drm_virtgpu_resource_create& args);
  Outcome resource_info(Call& call, guest_abi::drm_virtgpu_resource_info& args);
  Outcome transfer_from_host(Call& call, guest_abi::drm_virtgpu_3d_transfer_from_host& args);
  Outcome transfer_to_host(Call& call, guest_abi::drm_virtgpu_3d_transfer_to_host& args);
  Outcome wait(Call& call, guest_abi::drm_virtgpu_3d_wait& args);
  template <typename Args>
  Outcome exec_buffer(Call& call, Args& args);
  template <typename Args>
  Outcome resource_create_blob(Call& call, Args& args);

 private:
  struct ContextState {
    bool created = false;
    std::uint32_t capset_id = 0;
    std::uint32_t ring_count = 0;
    std::uint64_t ring_contexts = 0;  // fence context of ring 0; 0: no rings were asked for
    std::uint64_t poll_rings = 0;
    std::optional<std::string> debug_name;
    LedgerEntry entry;
  };
  // Requires context_mutex_.
  void create_context_locked(const Call* call);
  Result<void> apply_context_params(Call& call,
                                    std::span<const guest_abi::drm_virtgpu_context_set_param> params);

  Result<ObjectRef> lookup(std::uint32_t handle);  // ENOENT
  // The fences and commands of TRANSFER_*.
  Outcome transfer(const ObjectRef& object, bool to_host, const guest_abi::drm_virtgpu_3d_box& box,
                   std::uint32_t offset, std::uint32_t level, std::uint32_t stride,
                   std::uint32_t layer_stride);

  Result<BlobAnswer> create_blob(Call& call, const BlobArguments& args);
  Result<void> verify_blob(const BlobArguments& args) const;
  Result<ObjectRef> make_blob_object(Call& call, const BlobArguments& args);
  std::uint64_t user_address(const BlobArguments& args) const;  // 0: no user memory
  bool is_deduplicated(std::uint32_t blob_flags) const;
  std::optional<BlobAnswer> find_user_object(const BlobArguments& args);
  void remember_user_object(std::uint32_t handle, const ObjectRef& object);

  friend class Submit;

  const std::string opener_name_;
  std::uint32_t context_id_ = 0;  // 0 without 3D
  std::mutex context_mutex_;
  ContextState context_;  // guarded by context_mutex_

  struct UserObject {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint32_t handle = 0;
    std::weak_ptr<VirtioGpuObject> object;
  };
  std::mutex user_objects_mutex_;
  std::vector<UserObject> user_objects_;  // guarded by user_objects_mutex_; deduplicating kernels only
};

}  // namespace understudy::virtio_gpu
