// The amdgpu render node of one GPU, opened once: the GPU's address space (tied to KFD with ACQUIRE_VM) and
// the GEM handles that are mapped there.
//
// Owner: KfdDevice. Errors: errno of the DRM ioctls. Thread-safe.
// Mirrors: drivers/gpu/drm/amd/amdgpu/amdgpu_gem.c.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/address_span.h"
#include "runtime/driver/drm/drm_file.h"

namespace hsa_rt::kfd {

using drm::GemRef;

class RenderFile : public drm::DrmFile {
 public:
  using DrmFile::DrmFile;

  static Result<std::unique_ptr<RenderFile>> open(uint32_t render_minor);

  Result<uint64_t> mmap_offset(const GemRef& gem) const;

  Result<void> map(const GemRef& gem, const AddressSpan& span, uint64_t offset, Permission permission);
  // Changes the permission of what map() made with the same span and offset.
  Result<void> remap(const GemRef& gem, const AddressSpan& span, uint64_t offset, Permission permission);
  Result<void> unmap(const GemRef& gem, const AddressSpan& span);

 private:
  Result<void> change_va(uint32_t operation, const GemRef& gem, const AddressSpan& span, uint64_t offset,
                         uint32_t flags);
};

// What a render node knows beyond the KFD topology.
struct RenderDeviceInfo {
  uint32_t family = 0;
  uint32_t pci_revision = 0;
  uint64_t counter_frequency_hz = 0;
};
Result<RenderDeviceInfo> query_render_device(const RenderFile& file);

}  // namespace hsa_rt::kfd
