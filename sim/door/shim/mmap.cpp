// mmap(2) of the machine's files: the server hands the memory file whose pages the device would map, and the
// real mmap takes that one in the device's place, at once, so that MAP_FIXED leaves no gap in between.
// Mirrors: mm/mmap.c: do_mmap, as far as it looks at the file.
#include <fcntl.h>
#include <sys/mman.h>

#include "sim/door/shim/call.h"
#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/dmabuf.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/root.h"

namespace understudy::shim {
namespace {

constexpr std::uint64_t kPageMask = 4095;

UNDERSTUDY_NEXT(mmap);

struct Wish {
  void* address;
  std::size_t length;
  int protection;
  int flags;
  int fd;
  off_t offset;
};

void* next_of_mmap(const Wish& wish) {
  if (auto* const next = next_mmap.get())
    return next(wish.address, wish.length, wish.protection, wish.flags, wish.fd, wish.offset);
  const long result =
      raw(SYS_mmap, wish.address, wish.length, wish.protection, wish.flags, wish.fd, wish.offset);
  if (result >= 0 || result <= -4096) return reinterpret_cast<void*>(result);
  errno = static_cast<int>(-result);
  return MAP_FAILED;
}

void* fail_to_map(int error) {
  errno = error;
  return MAP_FAILED;
}

// What the kernel finds wrong before it asks the driver.
int wrong_with(const Wish& wish) {
  if (static_cast<std::uint64_t>(wish.offset) & kPageMask || wish.length == 0) return EINVAL;
  const int type = wish.flags & MAP_TYPE;
  if (type != MAP_SHARED && type != MAP_SHARED_VALIDATE && type != MAP_PRIVATE) return EINVAL;
  const long mode = raw(SYS_fcntl, wish.fd, F_GETFL) & O_ACCMODE;
  if (mode == O_WRONLY) return EACCES;
  if (type != MAP_PRIVATE && (wish.protection & PROT_WRITE) && mode != O_RDWR) return EACCES;
  return 0;
}

door::RequestHeader request_for(const Wish& wish, std::uint64_t file_id) {
  door::RequestHeader request{};
  request.kind = door::kMmap;
  request.file_id = file_id;
  request.command = static_cast<std::uint32_t>(wish.protection);
  request.map_flags = static_cast<std::uint32_t>(wish.flags);
  request.argument = static_cast<std::uint64_t>(wish.offset);
  request.length = wish.length;
  request.address = reinterpret_cast<std::uint64_t>(wish.address);
  return request;
}

void* map_file(const Wish& wish, const Descriptor& descriptor) {
  if (descriptor.error != 0) return fail_to_map(descriptor.error);
  if (const int error = wrong_with(wish)) return fail_to_map(error);
  door::RequestHeader request = request_for(wish, descriptor.file_id);
  Call call;
  if (const int error = call.perform_on(wish.fd, request)) return fail_to_map(error);
  if (call.value() < 0) return fail_to_map(static_cast<int>(-call.value()));
  // A table too full for the one descriptor that mmap itself would not need.
  if (call.fds_lost()) return fail_to_map(ENOMEM);
  if (call.fd_count() != 1) return fail_to_map(EIO);
  Wish real = wish;
  real.fd = call.fd(0);
  real.offset = static_cast<off_t>(call.reply().extra);
  const std::uint32_t reply_flags = call.reply().reply_flags;
  void* const mapped = next_of_mmap(real);
  if (mapped == MAP_FAILED) return mapped;
  // kfd_doorbell.c: kfd_doorbell_mmap sets VM_DONTCOPY.
  if (reply_flags & door::kMappingIsDoorbell) raw(SYS_madvise, mapped, wish.length, MADV_DONTFORK);
  if (reply_flags & door::kReportAddress) {
    request.kind = door::kMapped;
    request.address = reinterpret_cast<std::uint64_t>(mapped);
    // The mapping stands, whether or not the server still hears of it.
    (void)call.perform_on(wish.fd, request);
  }
  return mapped;
}

}  // namespace

UNDERSTUDY_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd,
                             off_t offset) noexcept {
  const Wish wish{address, length, protection, flags, fd, offset};
  if (fd < 0 || (flags & MAP_ANONYMOUS) || !root::active()) return next_of_mmap(wish);
  const Descriptor descriptor = describe(fd);
  if (descriptor.kind == DescriptorKind::kFile) return map_file(wish, descriptor);
  if (is_dma_buf(descriptor) &&
      !dma_buf_may_map(descriptor.info, length, static_cast<std::uint64_t>(offset)) && length != 0)
    return fail_to_map(EINVAL);
  return next_of_mmap(wish);
}

UNDERSTUDY_EXPORT void* mmap64(void*, size_t, int, int, int, off_t) noexcept UNDERSTUDY_ALIAS(mmap);

}  // namespace understudy::shim
