// VirtioGpuObject: the driver's GEM objects: guest pages (shmem), host memory seen through the window (vram),
// and pinned user pages.
//
// Owner: shared, see drm::GemObject; commands in flight hold references, too. Its end unmaps and unrefs the
// resource, and the pages stay until the device has answered that. Units: bytes. Errors: see the factories.
// Thread-safety: immutable but for map state and fences, which lock. Mirrors: virtio/virtgpu_object.c,
// virtgpu_vram.c; the userptr series' virtgpu_userptr.c.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/ledger.h"
#include "sim/drm/gem.h"
#include "sim/virtio_gpu/guest/guest_pages.h"
#include "sim/virtio_gpu/guest/virtio_gpu_device.h"

namespace understudy::virtio_gpu {

// What a resource is created as: virtio_gpu_object_params.
struct ObjectSpec {
  std::uint64_t size_bytes = 0;
  std::uint32_t context_id = 0;
  // blobs
  std::uint32_t blob_mem = 0;  // 0: not a blob
  std::uint32_t blob_flags = 0;
  std::uint64_t blob_id = 0;
  bool defer_mapping = false;
  // textures; the names are the protocol's
  abi::virtio_gpu_resource_create_3d texture{};

  bool is_blob() const { return blob_mem != 0; }
  bool in_guest() const {
    return blob_mem == abi::VIRTIO_GPU_BLOB_MEM_GUEST || blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST;
  }
  bool in_host() const {
    return blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D || blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST;
  }
};

struct UserRange {
  ClientRef client;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  bool read_only = false;
};

class VirtioGpuObject : public drm::GemObject {
 public:
  std::uint32_t resource_id() const { return resource_id_; }
  const ObjectSpec& spec() const { return spec_; }
  VirtioGpuDevice& gpu() const { return static_cast<VirtioGpuDevice&>(device()); }

  // What mmap of the whole object gives: EINVAL where it cannot be mapped.
  virtual Result<MmapTarget> map(const MmapRequest& request) = 0;
  // MAP answers 0 for objects without an offset.
  virtual std::uint64_t map_offset_bytes() { return mmap_offset_bytes(); }

 protected:
  VirtioGpuObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec, std::uint64_t size_bytes);
  // For destructors: the last command about the resource; `kept` lives until its answer.
  void unref_resource(std::shared_ptr<void> kept);

 private:
  const ObjectSpec spec_;
  const std::uint32_t resource_id_;
  LedgerEntry entry_;
};

using ObjectRef = std::shared_ptr<VirtioGpuObject>;

// Pages of the guest. ENOSPC for a size of 0, ENOMEM when memory is short.
class ShmemObject : public VirtioGpuObject {
 public:
  // Creates the resource with `fence` (not for blobs).
  static Result<ObjectRef> create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec,
                                  const VirtioFenceRef& fence);
  // A blob of another device's pages.
  static Result<ObjectRef> import(VirtioGpuDevice& gpu, const Call* call, const DmaBufRef& dma_buf);
  ~ShmemObject() override;

  BufferRef buffer() const override { return buffer_; }
  std::string describe() const override;
  Result<MmapTarget> map(const MmapRequest& request) override;

  ShmemObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec, BufferRef buffer,
              std::shared_ptr<Placement> placement);

 private:
  void create_resource(const VirtioFenceRef& fence);
  const BufferRef buffer_;
  const std::shared_ptr<Placement> placement_;
};

// Host memory. ENOSPC for a size of 0 or when the window is full, EINVAL without a window.
class VramObject : public VirtioGpuObject {
 public:
  static Result<ObjectRef> create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec);
  ~VramObject() override;

  BufferRef buffer() const override { return nullptr; }
  std::string describe() const override;
  Result<void> may_export() const override { return Errno(EOPNOTSUPP); }
  Result<MmapTarget> map(const MmapRequest& request) override;

  VramObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec);

 private:
  enum class MapState : std::uint8_t { kInitializing, kMapped, kFailed };
  // What the answer of the device is written to; it may come after the object has gone.
  struct Mapping {
    std::mutex mutex;
    std::condition_variable changed;
    MapState state = MapState::kInitializing;
  };
  // Takes a place in the window and asks the device to map there.
  Result<void> request_map();

  std::mutex mutex_;
  std::optional<std::uint64_t> window_offset_;  // guarded by mutex_
  const std::shared_ptr<Mapping> mapping_ = std::make_shared<Mapping>();
};

// Pinned user pages. EINVAL size 0 (and what the flavour asks for), EFAULT, ENOMEM.
class UserptrObject : public VirtioGpuObject {
 public:
  static Result<ObjectRef> create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec,
                                  const UserRange& range);
  ~UserptrObject() override;

  const UserRange& range() const { return range_; }
  BufferRef buffer() const override { return nullptr; }
  std::string describe() const override;
  Result<void> may_export() const override { return Errno(EINVAL); }
  Result<MmapTarget> map(const MmapRequest&) override { return Errno(EINVAL); }
  std::uint64_t map_offset_bytes() override { return 0; }

  UserptrObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec, UserRange range,
                std::uint64_t pinned_bytes, std::shared_ptr<Placement> placement);

 private:
  const UserRange range_;
  std::shared_ptr<Placement> placement_;
  LedgerEntry pin_;
};

}  // namespace understudy::virtio_gpu
