// The 3D device: a thin layer over the renderer that looks at few of its results. Mirrors QEMU
// hw/display/virtio-gpu-virgl.c.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "sim/virtio_gpu/device/capsets.h"
#include "sim/virtio_gpu/device/command_model.h"

namespace understudy::virtio_gpu {
namespace {

constexpr NoData kOk{abi::VIRTIO_GPU_RESP_OK_NODATA};
constexpr NoData kUnspecified{abi::VIRTIO_GPU_RESP_ERR_UNSPEC};
constexpr NoData kInvalidScanout{abi::VIRTIO_GPU_RESP_ERR_INVALID_SCANOUT_ID};
constexpr NoData kInvalidResource{abi::VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID};
constexpr NoData kInvalidContext{abi::VIRTIO_GPU_RESP_ERR_INVALID_CONTEXT_ID};
constexpr NoData kInvalidParameter{abi::VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER};

struct Resource {
  std::optional<std::uint64_t> mapped_at;
};

class ModelGl : public CommandModel {
 public:
  ModelGl(const DeviceParts& parts, Renderer& renderer) : parts_(parts), renderer_(renderer) {}

  Response execute(const Request& request) override {
    return std::visit([&](const auto& command) { return handle(command, request); }, request.command);
  }
  std::size_t resource_count() const override { return resources_.size(); }
  void reset() override {
    resources_.clear();
    renderer_.reset();
  }

 private:
  Response handle(const HeaderlessCommand&, const Request&) { return kInvalidParameter; }
  Response handle(const TruncatedCommand&, const Request&) {
    return parts_.behaviour.reports_malformed ? kInvalidParameter : kOk;
  }
  Response handle(const UnknownCommand&, const Request&) { return kUnspecified; }
  Response handle(const ResourceAssignUuid&, const Request&) { return kUnspecified; }
  Response handle(const UpdateCursor&, const Request&) { return kUnspecified; }
  Response handle(const MoveCursor&, const Request&) { return kUnspecified; }

  Response handle(const GetDisplayInfo&, const Request&) { return parts_.display.info(); }
  Response handle(const GetEdid& command, const Request&) {
    return parts_.display.edid(command.body.scanout);
  }
  Response handle(const SetScanout& command, const Request&);
  Response handle(const SetScanoutBlob& command, const Request&);
  Response handle(const ResourceFlush&, const Request&) { return kOk; }

  Response handle(const GetCapsetInfo& command, const Request&);
  Response handle(const GetCapset& command, const Request&);

  Response handle(const CtxCreate& command, const Request& request);
  Response handle(const CtxDestroy&, const Request& request);
  Response handle(const CtxAttachResource& command, const Request& request);
  Response handle(const CtxDetachResource& command, const Request& request);
  Response handle(const Submit3d& command, const Request& request);

  Response handle(const ResourceCreate2d& command, const Request&);
  Response handle(const ResourceCreate3d& command, const Request&);
  Response handle(const ResourceUnref& command, const Request&);
  Response handle(const ResourceAttachBacking& command, const Request& request);
  Response handle(const ResourceDetachBacking& command, const Request&);
  Response handle(const TransferToHost2d& command, const Request&);
  Response handle(const TransferToHost3d& command, const Request&) { return transfer_3d(command.body, true); }
  Response handle(const TransferFromHost3d& command, const Request&) {
    return transfer_3d(command.body, false);
  }
  Response transfer_3d(const abi::virtio_gpu_transfer_host_3d& body, bool to_host);

  Response handle(const ResourceCreateBlob& command, const Request& request);
  Response handle(const ResourceMapBlob& command, const Request&);
  Response handle(const ResourceUnmapBlob& command, const Request&);

  // The device model does not look at the renderer's result; `strict` does.
  Response swallow(const Result<void>& result, const NoData& loud) const {
    return !result && parts_.properties.strict ? loud : kOk;
  }
  Resource* find(std::uint32_t id) {
    const auto found = resources_.find(id);
    return found == resources_.end() ? nullptr : &found->second;
  }
  Response create_texture(std::uint32_t id, const Renderer::Texture& texture);
  void unmap(std::uint32_t id, Resource& resource);

  const DeviceParts parts_;
  Renderer& renderer_;
  std::map<std::uint32_t, Resource> resources_;
};

Response ModelGl::handle(const SetScanout& command, const Request&) {
  const auto& body = command.body;
  if (!parts_.display.has_output(body.scanout_id)) return kInvalidScanout;
  const bool shows = body.resource_id != 0 && body.r.width != 0 && body.r.height != 0;
  if (shows && !find(body.resource_id)) return kInvalidResource;
  parts_.display.show(body.scanout_id, shows ? body.resource_id : 0);
  return kOk;
}

Response ModelGl::handle(const SetScanoutBlob& command, const Request&) {
  if (!parts_.behaviour.gl_has_blobs) return kUnspecified;
  const auto& body = command.body;
  if (!parts_.display.has_output(body.scanout_id)) return kInvalidScanout;
  if (body.resource_id == 0) {
    parts_.display.show(body.scanout_id, 0);
    return kOk;
  }
  if (body.width < 16 || body.height < 16) return kInvalidParameter;
  if (!find(body.resource_id)) return kInvalidResource;
  parts_.display.show(body.scanout_id, body.resource_id);
  return kOk;
}

Response ModelGl::handle(const GetCapsetInfo& command, const Request&) {
  const std::vector<std::uint32_t> ids = advertised_capsets(parts_.properties, parts_.behaviour, renderer_);
  CapsetInfo info;
  if (command.body.capset_index < ids.size()) {
    info.body.capset_id = ids[command.body.capset_index];
    if (const ContextType* type = renderer_.context_type(info.body.capset_id)) {
      info.body.capset_max_version = type->capset_max_version();
      info.body.capset_max_size = type->capset_size_bytes();
    }
  }
  return info;
}

Response ModelGl::handle(const GetCapset& command, const Request&) {
  ContextType* type = renderer_.context_type(command.body.capset_id);
  if (!type) return kInvalidParameter;
  Capset capset;
  capset.data.resize(type->capset_size_bytes());
  type->fill_capset(command.body.capset_version, capset.data);
  return capset;
}

Response ModelGl::handle(const CtxCreate& command, const Request& request) {
  const auto& body = command.body;
  const std::size_t length = std::min<std::size_t>(
      {body.nlen, sizeof body.debug_name, ::strnlen(body.debug_name, sizeof body.debug_name)});
  std::uint32_t capset_id = abi::VIRTIO_GPU_CAPSET_VIRGL2;
  if (body.context_init != 0 && parts_.behaviour.has_context_init) {
    if (!parts_.properties.offers_context_init(parts_.behaviour)) return kUnspecified;
    capset_id = body.context_init;
  }
  return swallow(
      renderer_.create_context(request.header.ctx_id, capset_id, std::string_view(body.debug_name, length)),
      kUnspecified);
}

Response ModelGl::handle(const CtxDestroy&, const Request& request) {
  return swallow(renderer_.destroy_context(request.header.ctx_id), kInvalidContext);
}

Response ModelGl::handle(const CtxAttachResource& command, const Request& request) {
  return swallow(renderer_.attach_resource(request.header.ctx_id, command.body.resource_id),
                 kInvalidResource);
}

Response ModelGl::handle(const CtxDetachResource& command, const Request& request) {
  return swallow(renderer_.detach_resource(request.header.ctx_id, command.body.resource_id),
                 kInvalidResource);
}

Response ModelGl::handle(const Submit3d& command, const Request& request) {
  const auto& body = command.body;
  const std::uint32_t limit = parts_.behaviour.submit_limit_bytes;
  if (limit != 0 && body.size > limit) return kInvalidParameter;
  if (total_bytes(request.chain.readable) < sizeof body + std::uint64_t{body.size}) return kInvalidParameter;
  std::vector<std::byte> commands(body.size);
  if (copy_from(request.chain.readable, sizeof body, commands) != commands.size()) return kInvalidParameter;
  // The library is given whole words; what is left over is not looked at.
  const auto words = std::span(commands).first(commands.size() / 4 * 4);
  return swallow(renderer_.submit(request.header.ctx_id, words), kUnspecified);
}

Response ModelGl::create_texture(std::uint32_t id, const Renderer::Texture& texture) {
  if (parts_.behaviour.gl_checks_resource_ids && (id == 0 || find(id))) return kInvalidResource;
  resources_.try_emplace(id);
  return swallow(renderer_.create_texture(id, texture), kInvalidParameter);
}

Response ModelGl::handle(const ResourceCreate2d& command, const Request&) {
  const auto& body = command.body;
  return create_texture(body.resource_id,
                        {.format = body.format, .width = body.width, .height = body.height});
}

Response ModelGl::handle(const ResourceCreate3d& command, const Request&) {
  const auto& body = command.body;
  return create_texture(body.resource_id, {.target = body.target,
                                           .format = body.format,
                                           .width = body.width,
                                           .height = body.height,
                                           .depth = body.depth,
                                           .array_size = body.array_size,
                                           .last_level = body.last_level,
                                           .nr_samples = body.nr_samples});
}

void ModelGl::unmap(std::uint32_t id, Resource& resource) {
  if (resource.mapped_at) parts_.region.unmap(*resource.mapped_at, id);
  resource.mapped_at.reset();
}

Response ModelGl::handle(const ResourceUnref& command, const Request&) {
  const auto found = resources_.find(command.body.resource_id);
  if (found == resources_.end() && parts_.behaviour.gl_checks_resource_ids) return kInvalidResource;
  if (found != resources_.end()) {
    unmap(found->first, found->second);
    resources_.erase(found);
  }
  parts_.display.drop_resource(command.body.resource_id);
  renderer_.unref_resource(command.body.resource_id);
  return kOk;
}

Response ModelGl::handle(const ResourceAttachBacking& command, const Request& request) {
  auto backing = read_entry_list(parts_.memory, request, sizeof command.body, command.body.nr_entries,
                                 parts_.entry_limit());
  if (!backing) return kUnspecified;
  return swallow(renderer_.attach_backing(command.body.resource_id, std::move(*backing)), kInvalidResource);
}

Response ModelGl::handle(const ResourceDetachBacking& command, const Request&) {
  renderer_.detach_backing(command.body.resource_id);
  return kOk;
}

Response ModelGl::handle(const TransferToHost2d& command, const Request&) {
  const auto& body = command.body;
  Renderer::Transfer transfer{.x = body.r.x, .y = body.r.y, .width = body.r.width, .height = body.r.height};
  transfer.depth = 1;
  transfer.offset_bytes = body.offset;
  transfer.to_host = true;
  return swallow(renderer_.transfer(body.resource_id, transfer), kInvalidParameter);
}

Response ModelGl::transfer_3d(const abi::virtio_gpu_transfer_host_3d& body, bool to_host) {
  return swallow(renderer_.transfer(body.resource_id, {.x = body.box.x,
                                                       .y = body.box.y,
                                                       .z = body.box.z,
                                                       .width = body.box.w,
                                                       .height = body.box.h,
                                                       .depth = body.box.d,
                                                       .offset_bytes = body.offset,
                                                       .level = body.level,
                                                       .stride_bytes = body.stride,
                                                       .to_host = to_host}),
                 kInvalidParameter);
}

Response ModelGl::handle(const ResourceCreateBlob& command, const Request& request) {
  const auto& body = command.body;
  if (!parts_.behaviour.gl_has_blobs) return kUnspecified;
  if (!parts_.properties.blob) return kInvalidParameter;
  if (body.resource_id == 0 || find(body.resource_id)) return kInvalidResource;

  BlobRequest blob{.context_id = request.header.ctx_id,
                   .resource_id = body.resource_id,
                   .blob_mem = body.blob_mem,
                   .blob_flags = body.blob_flags,
                   .blob_id = body.blob_id,
                   .size_bytes = body.size,
                   .backing = {}};
  if (body.blob_mem != abi::VIRTIO_GPU_BLOB_MEM_HOST3D) {
    auto backing =
        read_entry_list(parts_.memory, request, sizeof body, body.nr_entries, parts_.entry_limit());
    if (!backing || parts_.behaviour.gl_rejects_guest_blobs) return kUnspecified;
    blob.backing = std::move(*backing);
  }
  if (!renderer_.create_blob(blob)) return kUnspecified;
  resources_.try_emplace(body.resource_id);
  return kOk;
}

Response ModelGl::handle(const ResourceMapBlob& command, const Request&) {
  if (!parts_.behaviour.gl_has_blobs) return kUnspecified;
  Resource* resource = find(command.body.resource_id);
  if (!resource) return kInvalidResource;
  if (parts_.region.size_bytes() == 0 || resource->mapped_at) return kUnspecified;
  Result<Blob> blob = renderer_.map_resource(command.body.resource_id);
  if (!blob) return kUnspecified;
  resource->mapped_at = command.body.offset;
  parts_.region.map(command.body.offset, command.body.resource_id, blob.value().opener);
  return MapInfo{blob.value().map_info};
}

Response ModelGl::handle(const ResourceUnmapBlob& command, const Request&) {
  if (!parts_.behaviour.gl_has_blobs) return kUnspecified;
  Resource* resource = find(command.body.resource_id);
  if (!resource) return kInvalidResource;
  // The real device suspends its queue here until the last user of the memory region has let go; with nobody
  // else using it that is over before anyone could look.
  unmap(command.body.resource_id, *resource);
  return kOk;
}

}  // namespace

std::unique_ptr<CommandModel> make_gl_model(const DeviceParts& parts, Renderer& renderer) {
  return std::make_unique<ModelGl>(parts, renderer);
}

}  // namespace understudy::virtio_gpu
