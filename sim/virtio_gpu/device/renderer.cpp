#include "sim/virtio_gpu/device/renderer.h"

#include <algorithm>
#include <utility>

#include "sim/virtio_gpu/device/texture_copy.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

namespace abi = uapi::virtio_gpu_wire;

// PIPE_MAX_TEXTURE_TYPES.
constexpr std::uint32_t kTextureTargets = 9;

}  // namespace

Renderer::Renderer(std::vector<std::unique_ptr<ContextType>> context_types)
    : context_types_(std::move(context_types)) {}

Renderer::~Renderer() {
  reset();
}

Result<void> Renderer::start(std::span<const std::uint32_t> capset_ids) {
  for (const std::uint32_t id : capset_ids) {
    if (ContextType* type = context_type(id)) TRY(type->start());
    started_.insert(id);
  }
  return {};
}

void Renderer::reset() {
  contexts_.clear();
  resources_.clear();
}

void Renderer::lose_contexts() {
  for (auto& [id, context] : contexts_) context.context->lose();
}

ContextType* Renderer::context_type(std::uint32_t capset_id) const {
  for (const auto& type : context_types_) {
    if (type->capset_id() == capset_id && type->capset_size_bytes() > 0) return type.get();
  }
  return nullptr;
}

Renderer::Context* Renderer::find_context(std::uint32_t context_id) {
  const auto found = contexts_.find(context_id);
  return found == contexts_.end() ? nullptr : &found->second;
}

Result<void> Renderer::create_context(std::uint32_t context_id, std::uint32_t capset_id,
                                      std::string_view name) {
  if (context_id == 0) return Errno(EINVAL);
  if (capset_id > abi::VIRTIO_GPU_CONTEXT_INIT_CAPSET_ID_MASK) return Errno(EINVAL);
  if (const Context* existing = find_context(context_id)) {
    if (existing->capset_id != capset_id) return Errno(EINVAL);
    return {};
  }
  ContextType* type = context_type(capset_id);
  if (!type || !started_.contains(capset_id)) return Errno(EINVAL);
  contexts_[context_id] = {capset_id, TRY(type->create_context(context_id, name))};
  return {};
}

Result<void> Renderer::destroy_context(std::uint32_t context_id) {
  const auto found = contexts_.find(context_id);
  if (found == contexts_.end()) return Errno(EINVAL);
  contexts_.erase(found);
  return {};
}

Result<void> Renderer::attach_resource(std::uint32_t context_id, std::uint32_t resource_id) {
  Context* context = find_context(context_id);
  if (!context || !resources_.contains(resource_id)) return Errno(EINVAL);
  context->context->attach_resource(resource_id);
  return {};
}

Result<void> Renderer::detach_resource(std::uint32_t context_id, std::uint32_t resource_id) {
  Context* context = find_context(context_id);
  if (!context || !resources_.contains(resource_id)) return Errno(EINVAL);
  context->context->detach_resource(resource_id);
  return {};
}

Result<void> Renderer::submit(std::uint32_t context_id, std::span<const std::byte> commands) {
  Context* context = find_context(context_id);
  if (!context) return Errno(EINVAL);
  return context->context->submit(commands);
}

Result<bool> Renderer::retires_fence(std::uint32_t context_id, std::uint32_t ring_index) const {
  const auto found = contexts_.find(context_id);
  if (found == contexts_.end()) return Errno(EINVAL);
  return found->second.context->retires_fence(ring_index);
}

Result<void> Renderer::create_texture(std::uint32_t resource_id, const Texture& texture) {
  if (resource_id == 0 || resources_.contains(resource_id)) return Errno(EINVAL);
  if (texture.target >= kTextureTargets || texture.width == 0) return Errno(EINVAL);
  resources_[resource_id].texture = texture;
  return {};
}

Result<void> Renderer::create_blob(const BlobRequest& request) {
  const bool in_guest = request.blob_mem == abi::VIRTIO_GPU_BLOB_MEM_GUEST ||
                        request.blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST;
  const bool in_host = request.blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D ||
                       request.blob_mem == abi::VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST;
  if (!in_guest && !in_host) return Errno(EINVAL);
  if (request.resource_id == 0 || resources_.contains(request.resource_id)) return Errno(EINVAL);
  if (request.size_bytes == 0) return Errno(EINVAL);
  if (in_guest ? total_bytes(request.backing) < request.size_bytes : !request.backing.empty())
    return Errno(EINVAL);

  Resource resource;
  resource.is_blob = true;
  resource.backing = request.backing;
  resource.blob.map_info = abi::VIRTIO_GPU_MAP_CACHE_CACHED;
  if (in_host) {
    Context* context = find_context(request.context_id);
    if (!context) return Errno(EINVAL);
    resource.blob = TRY(context->context->create_blob(request));
  }
  resources_[request.resource_id] = std::move(resource);
  return {};
}

Result<void> Renderer::attach_backing(std::uint32_t resource_id, Backing backing) {
  const auto found = resources_.find(resource_id);
  if (found == resources_.end() || !found->second.backing.empty()) return Errno(EINVAL);
  found->second.backing = std::move(backing);
  return {};
}

void Renderer::detach_backing(std::uint32_t resource_id) {
  const auto found = resources_.find(resource_id);
  if (found != resources_.end()) found->second.backing.clear();
}

void Renderer::unref_resource(std::uint32_t resource_id) {
  if (!resources_.contains(resource_id)) return;
  for (auto& [id, context] : contexts_) context.context->detach_resource(resource_id);
  resources_.erase(resource_id);
}

Result<Blob> Renderer::map_resource(std::uint32_t resource_id) const {
  const auto found = resources_.find(resource_id);
  if (found == resources_.end() || !found->second.blob.opener) return Errno(EINVAL);
  return found->second.blob;
}

Result<void> Renderer::transfer(std::uint32_t resource_id, const Transfer& transfer) {
  const auto found = resources_.find(resource_id);
  if (found == resources_.end() || found->second.is_blob || found->second.backing.empty())
    return Errno(EINVAL);
  Resource& resource = found->second;
  const Texture& texture = resource.texture;
  if (transfer.level != 0 || transfer.z != 0 || transfer.depth > 1) return Errno(EINVAL);
  const TextureLayout layout =
      TRY(texture_layout(texture.target, texture.format, texture.width, texture.height));
  if (!rectangle_fits(transfer.x, transfer.y, transfer.width, transfer.height, texture.width, layout.rows))
    return Errno(EINVAL);
  resource.pixels.resize(layout.size_bytes());
  const TextureRectangle rectangle{transfer.x, transfer.y, transfer.width, transfer.height};
  const std::uint64_t stride =
      transfer.stride_bytes ? transfer.stride_bytes : std::uint64_t{texture.width} * layout.pixel_bytes;
  copy_rectangle(resource.pixels, layout, rectangle, resource.backing, transfer.offset_bytes, stride,
                 transfer.to_host ? CopyDirection::kToHost : CopyDirection::kFromHost);
  return {};
}

}  // namespace understudy::virtio_gpu
