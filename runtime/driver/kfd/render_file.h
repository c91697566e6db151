// The amdgpu render node of one GPU, opened once: the GPU's address space (tied to KFD with ACQUIRE_VM) and
// the GEM handles in it.
//
// PRIME gives the same handle for the same buffer without counting, and one GEM_CLOSE takes it from
// everybody; so this class counts. GemRef is one counted use. Importing and closing happen under one lock, or
// a close could take a handle that another thread was just given.
//
// Owner: KfdDevice. Errors: errno of the DRM ioctls. Thread-safe.
// Mirrors: drivers/gpu/drm/drm_prime.c, drivers/gpu/drm/amd/amdgpu/amdgpu_gem.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/address_span.h"
#include "runtime/base/unique_fd.h"
#include "runtime/driver/memory.h"

namespace hsa_rt::kfd {

class RenderFile;

// One counted use of a GEM handle of a RenderFile. Must not outlive it.
class GemRef {
 public:
  GemRef(RenderFile& file, uint32_t handle) : file_(file), handle_(handle) {}
  GemRef(const GemRef&) = delete;
  GemRef& operator=(const GemRef&) = delete;
  ~GemRef();

  RenderFile& file() const { return file_; }
  uint32_t handle() const { return handle_; }

 private:
  RenderFile& file_;
  const uint32_t handle_;
};

class RenderFile {
 public:
  static Result<std::unique_ptr<RenderFile>> open(uint32_t render_minor);

  explicit RenderFile(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  Result<std::shared_ptr<GemRef>> import_dmabuf(int dmabuf_fd);
  Result<UniqueFd> export_dmabuf(const GemRef& gem) const;
  Result<uint64_t> mmap_offset(const GemRef& gem) const;

  Result<void> map(const GemRef& gem, const AddressSpan& span, uint64_t offset, Permission permission);
  // Changes the permission of what map() made with the same span and offset.
  Result<void> remap(const GemRef& gem, const AddressSpan& span, uint64_t offset, Permission permission);
  Result<void> unmap(const GemRef& gem, const AddressSpan& span);

 private:
  friend class GemRef;

  Result<void> change_va(uint32_t operation, const GemRef& gem, const AddressSpan& span, uint64_t offset,
                         uint32_t flags);
  void drop(uint32_t handle);
  // Both require lock_.
  bool close_handle(uint32_t handle);
  void close_refused();

  const UniqueFd fd_;
  std::mutex lock_;
  std::map<uint32_t, uint64_t> use_count_;  // by GEM handle
  std::vector<uint32_t> refused_;           // unused handles whose GEM_CLOSE failed, to be tried again
};

// A render node's name and identity beyond the KFD topology.
struct RenderDeviceInfo {
  uint32_t family = 0;
  uint32_t pci_revision = 0;
  uint64_t counter_frequency_hz = 0;
};
Result<RenderDeviceInfo> query_render_device(const RenderFile& file);

}  // namespace hsa_rt::kfd
