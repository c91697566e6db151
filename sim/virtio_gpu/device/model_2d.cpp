// The 2D device: images, guest blobs, scanouts. Mirrors QEMU hw/display/virtio-gpu.c.
#include <limits>
#include <map>

#include "sim/virtio_gpu/device/command_model.h"
#include "sim/virtio_gpu/device/texture_copy.h"

namespace understudy::virtio_gpu {
namespace {

constexpr NoData kOk{abi::VIRTIO_GPU_RESP_OK_NODATA};
constexpr NoData kUnspecified{abi::VIRTIO_GPU_RESP_ERR_UNSPEC};
constexpr NoData kOutOfMemory{abi::VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY};
constexpr NoData kInvalidScanout{abi::VIRTIO_GPU_RESP_ERR_INVALID_SCANOUT_ID};
constexpr NoData kInvalidResource{abi::VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID};
constexpr NoData kInvalidParameter{abi::VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER};

constexpr std::uint32_t kSmallestScanout = 16;

struct Resource {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  TextureLayout layout;
  std::vector<std::byte> pixels;  // made at the first transfer
  std::uint64_t hostmem_bytes = 0;
  std::uint64_t blob_bytes = 0;
  bool is_blob = false;
  bool has_backing = false;
  Backing backing;
};

// Commands that only the 3D device has.
template <typename C>
concept ThreeDimensional = std::is_same_v<C, GetCapsetInfo> || std::is_same_v<C, GetCapset> ||
    std::is_same_v<C, CtxCreate> || std::is_same_v<C, CtxDestroy> || std::is_same_v<C, CtxAttachResource> ||
    std::is_same_v<C, CtxDetachResource> || std::is_same_v<C, ResourceCreate3d> ||
    std::is_same_v<C, TransferToHost3d> || std::is_same_v<C, TransferFromHost3d> ||
    std::is_same_v<C, Submit3d> || std::is_same_v<C, ResourceMapBlob> || std::is_same_v<C, ResourceUnmapBlob>;

class Model2d : public CommandModel {
 public:
  explicit Model2d(const DeviceParts& parts) : parts_(parts) {}

  Response execute(const Request& request) override {
    return std::visit([&](const auto& command) { return handle(command, request); }, request.command);
  }
  std::size_t resource_count() const override { return resources_.size(); }
  void reset() override {
    resources_.clear();
    hostmem_bytes_ = 0;
  }

 private:
  Response handle(const HeaderlessCommand&, const Request&) { return kInvalidParameter; }
  Response handle(const TruncatedCommand&, const Request&) {
    return parts_.behaviour.reports_malformed ? kInvalidParameter : kOk;
  }
  Response handle(const UnknownCommand&, const Request&) { return kUnspecified; }
  template <ThreeDimensional C>
  Response handle(const C&, const Request&) {
    return kUnspecified;
  }
  Response handle(const ResourceAssignUuid&, const Request&) { return kUnspecified; }
  Response handle(const UpdateCursor&, const Request&) { return kUnspecified; }
  Response handle(const MoveCursor&, const Request&) { return kUnspecified; }

  Response handle(const GetDisplayInfo&, const Request&) { return parts_.display.info(); }
  Response handle(const GetEdid& command, const Request&) {
    return parts_.display.edid(command.body.scanout);
  }
  Response handle(const ResourceCreate2d& command, const Request&);
  Response handle(const ResourceCreateBlob& command, const Request& request);
  Response handle(const ResourceUnref& command, const Request&);
  Response handle(const ResourceAttachBacking& command, const Request& request);
  Response handle(const ResourceDetachBacking& command, const Request&);
  Response handle(const TransferToHost2d& command, const Request&);
  Response handle(const ResourceFlush& command, const Request&);
  Response handle(const SetScanout& command, const Request&);
  Response handle(const SetScanoutBlob& command, const Request&);

  Resource* find(std::uint32_t id) {
    const auto found = resources_.find(id);
    return found == resources_.end() ? nullptr : &found->second;
  }
  bool may_create(std::uint32_t id) const { return id != 0 && !resources_.contains(id); }

  const DeviceParts parts_;
  std::map<std::uint32_t, Resource> resources_;
  std::uint64_t hostmem_bytes_ = 0;
};

Response Model2d::handle(const ResourceCreate2d& command, const Request&) {
  const auto& body = command.body;
  if (!may_create(body.resource_id)) return kInvalidResource;
  if (!is_image_format(body.format)) return kInvalidParameter;
  const Result<TextureLayout> layout = texture_layout(2, body.format, body.width, body.height);
  if (!layout) return kOutOfMemory;
  const std::uint64_t image_bytes = layout.value().size_bytes();
  if (image_bytes + hostmem_bytes_ >= parts_.properties.max_hostmem_bytes) return kOutOfMemory;

  Resource& resource = resources_[body.resource_id];
  resource.width = body.width;
  resource.height = body.height;
  resource.layout = layout.value();
  resource.hostmem_bytes = image_bytes;
  hostmem_bytes_ += image_bytes;
  return kOk;
}

Response Model2d::handle(const ResourceCreateBlob& command, const Request& request) {
  const auto& body = command.body;
  if (!parts_.properties.blob) return kInvalidParameter;
  if (!may_create(body.resource_id)) return kInvalidResource;
  // Both must be wrong: a HOST3D blob passes if its only flag is SHAREABLE.
  if (body.blob_mem != abi::VIRTIO_GPU_BLOB_MEM_GUEST &&
      body.blob_flags != abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE)
    return kInvalidParameter;
  auto backing = read_entry_list(parts_.memory, request, sizeof body, body.nr_entries, parts_.entry_limit());
  if (!backing) return kUnspecified;

  Resource& resource = resources_[body.resource_id];
  resource.is_blob = true;
  resource.blob_bytes = body.size;
  resource.has_backing = body.nr_entries > 0;
  resource.backing = std::move(*backing);
  return kOk;
}

Response Model2d::handle(const ResourceUnref& command, const Request&) {
  const auto found = resources_.find(command.body.resource_id);
  if (found == resources_.end()) return kInvalidResource;
  parts_.display.drop_resource(found->first);
  hostmem_bytes_ -= found->second.hostmem_bytes;
  resources_.erase(found);
  return kOk;
}

Response Model2d::handle(const ResourceAttachBacking& command, const Request& request) {
  Resource* resource = find(command.body.resource_id);
  if (!resource) return kInvalidResource;
  if (resource->has_backing) return kUnspecified;
  auto backing = read_entry_list(parts_.memory, request, sizeof command.body, command.body.nr_entries,
                                 parts_.entry_limit());
  if (!backing) return kUnspecified;
  resource->has_backing = true;
  resource->backing = std::move(*backing);
  return kOk;
}

Response Model2d::handle(const ResourceDetachBacking& command, const Request&) {
  Resource* resource = find(command.body.resource_id);
  if (!resource) return kInvalidResource;
  if (!resource->has_backing) return kUnspecified;
  resource->has_backing = false;
  resource->backing.clear();
  return kOk;
}

Response Model2d::handle(const TransferToHost2d& command, const Request&) {
  const auto& body = command.body;
  Resource* resource = find(body.resource_id);
  if (!resource) return kInvalidResource;
  if (!resource->has_backing) return kUnspecified;
  if (resource->is_blob) return kOk;  // host and guest see the same pages
  if (!rectangle_fits(body.r.x, body.r.y, body.r.width, body.r.height, resource->width, resource->height))
    return kInvalidParameter;

  TextureRectangle rectangle{body.r.x, body.r.y, body.r.width, body.r.height};
  std::uint64_t offset = body.offset;
  if (offset == 0 && body.r.x == 0 && body.r.y == 0 && body.r.width == resource->width) {
    rectangle = {0, 0, resource->width, resource->height};  // a transfer of whole rows takes the whole image
  }
  resource->pixels.resize(resource->layout.size_bytes());
  copy_rectangle(resource->pixels, resource->layout, rectangle, resource->backing, offset,
                 resource->layout.stride_bytes, CopyDirection::kToHost);
  return kOk;
}

Response Model2d::handle(const ResourceFlush& command, const Request&) {
  const auto& body = command.body;
  const Resource* resource = find(body.resource_id);
  if (!resource) return kInvalidResource;
  if (resource->is_blob) return kOk;
  if (!rectangle_fits(body.r.x, body.r.y, body.r.width, body.r.height, resource->width, resource->height))
    return kInvalidParameter;
  return kOk;
}

Response Model2d::handle(const SetScanout& command, const Request&) {
  const auto& body = command.body;
  if (!parts_.display.has_output(body.scanout_id)) return kInvalidScanout;
  if (body.resource_id == 0) {
    parts_.display.show(body.scanout_id, 0);
    return kOk;
  }
  const Resource* resource = find(body.resource_id);
  if (!resource) return kInvalidResource;
  if (!resource->has_backing) return kUnspecified;
  if (body.r.width < kSmallestScanout || body.r.height < kSmallestScanout ||
      !rectangle_fits(body.r.x, body.r.y, body.r.width, body.r.height, resource->width, resource->height))
    return kInvalidParameter;
  parts_.display.show(body.scanout_id, body.resource_id);
  return kOk;
}

Response Model2d::handle(const SetScanoutBlob& command, const Request&) {
  const auto& body = command.body;
  if (!parts_.display.has_output(body.scanout_id)) return kInvalidScanout;
  if (!parts_.properties.blob) return kInvalidParameter;
  if (body.resource_id == 0) {
    parts_.display.show(body.scanout_id, 0);
    return kOk;
  }
  const Resource* resource = find(body.resource_id);
  if (!resource) return kInvalidResource;
  if (!resource->has_backing) return kUnspecified;
  if (!is_image_format(body.format)) return kInvalidParameter;
  if (body.r.width < kSmallestScanout || body.r.height < kSmallestScanout ||
      !rectangle_fits(body.r.x, body.r.y, body.r.width, body.r.height, body.width, body.height))
    return kInvalidParameter;
  const std::uint64_t end = std::uint64_t{body.offsets[0]} + std::uint64_t{body.strides[0]} * body.height;
  if (end > resource->blob_bytes) return kInvalidParameter;
  parts_.display.show(body.scanout_id, body.resource_id);
  return kOk;
}

}  // namespace

std::unique_ptr<CommandModel> make_2d_model(const DeviceParts& parts) {
  return std::make_unique<Model2d>(parts);
}

}  // namespace understudy::virtio_gpu
