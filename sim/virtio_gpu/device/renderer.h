// Renderer: the library behind the 3D device: contexts by capability set, resources, blobs, fences.
//
// Owner: the device; its strand is the only caller. Units: bytes. Errors: positive errno (the library returns
// them negative); which of them the device model passes on is the device model's business. Thread-safety:
// none, one caller at a time. Mirrors: virglrenderer src/virglrenderer.c, virgl_resource.c, virgl_context.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/result.h"
#include "sim/virtio_gpu/device/host_visible_region.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

// Guest memory behind a resource.
using Backing = std::vector<MemoryPiece>;

struct BlobRequest {
  std::uint32_t context_id = 0;
  std::uint32_t resource_id = 0;
  std::uint32_t blob_mem = 0;
  std::uint32_t blob_flags = 0;
  std::uint64_t blob_id = 0;
  std::uint64_t size_bytes = 0;
  Backing backing;
};

struct Blob {
  // Empty: the blob cannot be mapped.
  BlobOpener opener;
  std::uint32_t map_info = 0;  // VIRTIO_GPU_MAP_CACHE_*
};

// One context, as its capability set implements it.
class RendererContext {
 public:
  virtual ~RendererContext() = default;
  virtual Result<void> submit(std::span<const std::byte> commands) = 0;
  // The host's part of a HOST3D or HOST3D_GUEST blob.
  virtual Result<Blob> create_blob(const BlobRequest& request) = 0;
  virtual void attach_resource(std::uint32_t /*resource_id*/) {}
  virtual void detach_resource(std::uint32_t /*resource_id*/) {}
  // A fence on `ring_index`: does it retire (at once), or never?
  virtual bool retires_fence(std::uint32_t ring_index) = 0;
  // What the context works on is gone: from now on commands fail.
  virtual void lose() {}
};

// What the library was built with for one capability set.
class ContextType {
 public:
  virtual ~ContextType() = default;
  virtual std::uint32_t capset_id() const = 0;
  virtual std::uint32_t capset_max_version() const = 0;
  // 0: not available, and so not advertised.
  virtual std::uint32_t capset_size_bytes() const = 0;
  virtual void fill_capset(std::uint32_t version, std::span<std::byte> into) = 0;
  // Part of the renderer's own start; one failure fails all.
  virtual Result<void> start() { return {}; }
  virtual Result<std::unique_ptr<RendererContext>> create_context(std::uint32_t context_id,
                                                                  std::string_view name) = 0;
};

// VIRGL and VIRGL2: capability sets of a plausible host, contexts that take commands. No GL is executed, and
// command streams are refused as the library refuses what it does not understand.
std::unique_ptr<ContextType> make_virgl(std::uint32_t capset_id);

class Renderer {
 public:
  explicit Renderer(std::vector<std::unique_ptr<ContextType>> context_types);
  ~Renderer();

  // Starts what is needed for these capability sets; contexts of others cannot be made.
  Result<void> start(std::span<const std::uint32_t> capset_ids);
  // Drops contexts, then resources.
  void reset();
  // All contexts lose what they work on.
  void lose_contexts();

  // What the library was built with, started or not; null when it was not.
  ContextType* context_type(std::uint32_t capset_id) const;

  // EINVAL: id 0, a capability set that is not started, or the id taken by another kind of context.
  Result<void> create_context(std::uint32_t context_id, std::uint32_t capset_id, std::string_view name);
  Result<void> destroy_context(std::uint32_t context_id);                             // EINVAL
  Result<void> attach_resource(std::uint32_t context_id, std::uint32_t resource_id);  // EINVAL
  Result<void> detach_resource(std::uint32_t context_id, std::uint32_t resource_id);  // EINVAL
  Result<void> submit(std::uint32_t context_id,
                      std::span<const std::byte> commands);  // EINVAL and the context's
  // Does a fence of this context and ring retire? EINVAL: no such context.
  Result<bool> retires_fence(std::uint32_t context_id, std::uint32_t ring_index) const;

  struct Texture {
    std::uint32_t target = 2;  // PIPE_TEXTURE_2D
    std::uint32_t format = 0;
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t depth = 1;
    std::uint32_t array_size = 1;
    std::uint32_t last_level = 0;
    std::uint32_t nr_samples = 0;
  };
  // EINVAL: id 0 or taken, or no such texture.
  Result<void> create_texture(std::uint32_t resource_id, const Texture& texture);
  // EINVAL for what the library refuses, else the context's errors.
  Result<void> create_blob(const BlobRequest& request);
  Result<void> attach_backing(std::uint32_t resource_id, Backing backing);  // EINVAL
  void detach_backing(std::uint32_t resource_id);
  void unref_resource(std::uint32_t resource_id);
  // The blob of a resource that can be mapped; EINVAL otherwise.
  Result<Blob> map_resource(std::uint32_t resource_id) const;

  struct Transfer {
    std::uint32_t x = 0, y = 0, z = 0, width = 0, height = 0, depth = 0;
    std::uint64_t offset_bytes = 0;
    std::uint32_t level = 0;
    std::uint32_t stride_bytes = 0;
    bool to_host = false;
  };
  // Copies between backing and the texture's base level. EINVAL: unknown resource, no backing, outside.
  Result<void> transfer(std::uint32_t resource_id, const Transfer& transfer);

 private:
  struct Resource {
    Texture texture;
    std::vector<std::byte> pixels;  // of the base level, made at the first transfer
    Backing backing;
    Blob blob;
    bool is_blob = false;
  };
  struct Context {
    std::uint32_t capset_id = 0;
    std::unique_ptr<RendererContext> context;
  };
  Context* find_context(std::uint32_t context_id);

  const std::vector<std::unique_ptr<ContextType>> context_types_;
  std::set<std::uint32_t> started_;
  std::map<std::uint32_t, Context> contexts_;
  std::map<std::uint32_t, Resource> resources_;
};

}  // namespace understudy::virtio_gpu
