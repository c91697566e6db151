// The render node of a virtio-gpu, opened once: a context of the ROCm capability set on the host, and blobs
// as GEM handles in it. Closing it ends the context and everything the host made for it.
//
// Owner: VirtioDriver. Units: bytes. Errors: errno of the ioctls. Thread-safe.
// Mirrors: drivers/gpu/drm/virtio/virtgpu_ioctl.c, virtgpu_submit.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/address_span.h"
#include "runtime/driver/drm/drm_file.h"

namespace hsa_rt::virtio {

using drm::GemRef;

class VirtioFile : public drm::DrmFile {
 public:
  using DrmFile::DrmFile;

  // The first virtio-gpu whose host has the capability set, with a context made. ENODEV: there is none.
  static Result<std::unique_ptr<VirtioFile>> open();

  struct Blob {
    std::shared_ptr<GemRef> gem;
    uint32_t resource_id = 0;
  };
  // What the host knows as `blob_id`. The host may refuse, and nobody is told: later commands on the resource
  // fail.
  Result<Blob> create_host_blob(uint64_t blob_id, uint64_t size_bytes, bool mappable);

  // Whole pages of the process, pinned. EINVAL: the kernel has no user pointers.
  struct UserBlob {
    Blob blob;
    bool known = false;   // the kernel gave an older blob that covers the pages (some kernels do)
    uint64_t offset = 0;  // of the pages in it
  };
  Result<UserBlob> create_user_blob(uint64_t blob_id, const AddressSpan& pages, bool read_only);

  Result<uint64_t> mmap_offset(const GemRef& gem) const;

  // Hands the host a stream of commands and waits until it is done with them, `gem` carrying the fence.
  // EBUSY: the host gave no answer in 15 s.
  Result<void> submit(std::span<const std::byte> commands, const GemRef& gem);

 private:
  bool has_rocm_context_type() const;
  Result<void> make_context();
};

}  // namespace hsa_rt::virtio
