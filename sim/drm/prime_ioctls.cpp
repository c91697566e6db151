#include "sim/drm/prime_ioctls.h"

#include <fcntl.h>

#include "sim/core/machine.h"

namespace understudy::drm {
namespace {

using uapi::drm::drm_prime_handle;

// DRM_CLOEXEC and DRM_RDWR are the open flags themselves.
constexpr std::uint32_t kKnownFlags = O_CLOEXEC | O_RDWR;

}  // namespace

Outcome prime_handle_to_fd(DrmFile& file, Call& call, drm_prime_handle& args) {
  if (args.flags & ~kKnownFlags) return Errno(EINVAL);
  const GemHandle handle{args.handle};
  const GemRef object = TRY(file.handles().lookup(handle));
  const DmaBufRef dma_buf = TRY(object->ensure_dma_buf(call, (args.flags & O_RDWR) != 0));
  file.handles().remember(dma_buf, handle);
  TRY(call.hand_fd(TRY(dma_buf->open_descriptor()), offsetof(drm_prime_handle, fd),
                   (args.flags & O_CLOEXEC) != 0));
  return 0;
}

Outcome prime_fd_to_handle(DrmFile& file, Call& call, drm_prime_handle& args) {
  const DmaBufRef dma_buf = TRY(call.machine().dmabufs().of_client_fd(call.client(), args.fd));
  // A dma-buf this file knows gives its handle back, without another reference.
  if (const Result<GemHandle> known = file.handles().handle_of(dma_buf)) {
    args.handle = static_cast<std::uint32_t>(known.value());
    return 0;
  }
  const GemRef object = TRY(file.device().import_dma_buf(call, file, dma_buf));
  const GemHandle handle = TRY(file.handles().create(&call, object));
  file.handles().remember(dma_buf, handle);
  args.handle = static_cast<std::uint32_t>(handle);
  return 0;
}

}  // namespace understudy::drm
