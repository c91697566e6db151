// VIRGL and VIRGL2 contexts: present so that a guest finds the 3D device it expects. No GL is executed: a
// command stream other than no-operations is refused as one the library cannot decode, which the device model
// does not tell the guest.
#include <cstring>

#include "sim/virtio_gpu/device/renderer.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

namespace abi = uapi::virtio_gpu_wire;

class VirglContext : public RendererContext {
 public:
  Result<void> submit(std::span<const std::byte> commands) override {
    // A stream of headers: command in the low byte, payload words in the high half.
    for (std::size_t offset = 0; offset + sizeof(std::uint32_t) <= commands.size();) {
      std::uint32_t header = 0;
      std::memcpy(&header, commands.data() + offset, sizeof header);
      const std::size_t words = 1 + (header >> 16);
      constexpr std::uint32_t kNoOperation = 0;
      if ((header & 0xff) != kNoOperation || words > (commands.size() - offset) / sizeof header)
        return Errno(EINVAL);
      offset += words * sizeof header;
    }
    return {};
  }
  Result<Blob> create_blob(const BlobRequest&) override { return Errno(EINVAL); }
  bool retires_fence(std::uint32_t) override { return true; }
};

class VirglType : public ContextType {
 public:
  VirglType(std::uint32_t capset_id, std::uint32_t max_version, std::uint32_t size_bytes)
      : capset_id_(capset_id), max_version_(max_version), size_bytes_(size_bytes) {}
  std::uint32_t capset_id() const override { return capset_id_; }
  std::uint32_t capset_max_version() const override { return max_version_; }
  std::uint32_t capset_size_bytes() const override { return size_bytes_; }
  void fill_capset(std::uint32_t, std::span<std::byte> into) override {
    // The set starts with its version; all capabilities stay zero.
    if (into.size() >= sizeof max_version_) std::memcpy(into.data(), &max_version_, sizeof max_version_);
  }
  Result<std::unique_ptr<RendererContext>> create_context(std::uint32_t, std::string_view) override {
    return std::unique_ptr<RendererContext>(std::make_unique<VirglContext>());
  }

 private:
  const std::uint32_t capset_id_;
  const std::uint32_t max_version_;
  const std::uint32_t size_bytes_;
};

}  // namespace

std::unique_ptr<ContextType> make_virgl(std::uint32_t capset_id) {
  // Versions and sizes as virglrenderer 0.10 reports them.
  if (capset_id == abi::VIRTIO_GPU_CAPSET_VIRGL) return std::make_unique<VirglType>(capset_id, 1, 308);
  return std::make_unique<VirglType>(capset_id, 2, 1376);
}

}  // namespace understudy::virtio_gpu
