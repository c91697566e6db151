// lseek(2). Mirrors: fs/read_write.c: noop_llseek (DRM and accel files), no_llseek (kfd, anonymous files);
// dma_buf_llseek.
#include <unistd.h>

#include "sim/door/shim/connection.h"
#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/dmabuf.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/root.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(lseek);

off_t next_of_lseek(int fd, off_t offset, int whence) {
  if (auto* const next = next_lseek.get()) return next(fd, offset, whence);
  const long result = raw(SYS_lseek, fd, offset, whence);
  return result < 0 ? fail(-result) : result;
}

}  // namespace

UNDERSTUDY_EXPORT off_t lseek(int fd, off_t offset, int whence) noexcept {
  // Before the machine has been met, what the kernel says is right but for the errors.
  if (!root::active() || known_machine() == nullptr) return next_of_lseek(fd, offset, whence);
  const Descriptor descriptor = describe(fd);
  if (descriptor.kind == DescriptorKind::kFile) {
    if (whence < SEEK_SET || whence > SEEK_HOLE) return fail(EINVAL);
    return is_drm(descriptor.number) ? 0 : fail(ESPIPE);
  }
  if (!is_dma_buf(descriptor)) return next_of_lseek(fd, offset, whence);
  const long result = dma_buf_seek(descriptor.info, offset, whence);
  return result < 0 ? fail(-result) : result;
}

UNDERSTUDY_EXPORT off_t lseek64(int, off_t, int) noexcept UNDERSTUDY_ALIAS(lseek);

}  // namespace understudy::shim
