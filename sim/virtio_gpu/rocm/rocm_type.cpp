// The ROCm capability set as the renderer offers it. Mirrors virglrenderer src/rocm/hsakmt_device.c:
// vhsakmt_device_init, vhsakmt_get_capset, hsakmt_device_create.
#include <algorithm>
#include <cstring>

#include "sim/virtio_gpu/rocm/rocm_context.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

class RocmType : public ContextType {
 public:
  RocmType(std::shared_ptr<Machine> host, const VhsakmtLayout& layout, bool strict)
      : host_(std::move(host)), layout_(layout), strict_(strict) {
    capset_.version_major = 1;
    capset_.context_type = hsa::VIRTGPU_DRM_CONTEXT_AMDGPU;
  }

  std::uint32_t capset_id() const override { return uapi::virtio_gpu_wire::VIRTIO_GPU_CAPSET_ROCM; }
  std::uint32_t capset_max_version() const override { return 1; }
  // Known without a look at the host: the set is offered even where there is no GPU.
  std::uint32_t capset_size_bytes() const override { return sizeof capset_; }
  void fill_capset(std::uint32_t, std::span<std::byte> into) override {
    std::memcpy(into.data(), &capset_, std::min(into.size(), sizeof capset_));
  }

  Result<void> start() override {
    if (backend_) return {};
    if (!host_) return Errno(ENOENT);
    backend_ = TRY(RocmBackend::open(*host_, layout_, strict_));
    HsaResult<hsa::HsaVersionInfo> version = backend_->thunk().version();
    if (version) {
      capset_.version_major = version.value().KernelInterfaceMajorVersion;
      capset_.version_minor = version.value().KernelInterfaceMinorVersion;
    }
    return {};
  }

  Result<std::unique_ptr<RendererContext>> create_context(std::uint32_t context_id,
                                                          std::string_view) override {
    return std::unique_ptr<RendererContext>(TRY(RocmContext::create(*backend_, context_id)));
  }

 private:
  const std::shared_ptr<Machine> host_;
  const VhsakmtLayout& layout_;
  const bool strict_;
  hsa::virgl_renderer_capset_hsakmt capset_{};
  std::unique_ptr<RocmBackend> backend_;
};

}  // namespace

std::unique_ptr<ContextType> make_rocm(std::shared_ptr<Machine> host, const VhsakmtLayout& layout,
                                       bool strict) {
  return std::make_unique<RocmType>(std::move(host), layout, strict);
}

}  // namespace understudy::virtio_gpu
