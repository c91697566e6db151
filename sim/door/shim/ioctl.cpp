// ioctl(2). Mirrors: fs/ioctl.c: SYSCALL ioctl, vfs_ioctl.
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "sim/door/shim/call.h"
#include "sim/door/shim/client_memory.h"
#include "sim/door/shim/descriptor.h"
#include "sim/door/shim/dmabuf.h"
#include "sim/door/shim/export.h"
#include "sim/door/shim/next.h"
#include "sim/door/shim/raw.h"
#include "sim/door/shim/root.h"

namespace understudy::shim {
namespace {

UNDERSTUDY_NEXT(ioctl);

int next_of_ioctl(int fd, unsigned long command, void* argument) {
  if (auto* const next = next_ioctl.get()) return next(fd, command, argument);
  return as_library_result(raw(SYS_ioctl, fd, command, argument));
}

// fs/ioctl.c: do_vfs_ioctl settles these for every file, before the driver hears of them.
bool concerns_only_the_descriptor(unsigned command) {
  return command == FIOCLEX || command == FIONCLEX || command == FIONBIO || command == FIOASYNC;
}

// Puts the numbers of received descriptors where the struct wants them. They belong to the program then.
long install_fds(Call& call, std::uint64_t argument) {
  if (call.fds_lost()) return -EMFILE;
  for (unsigned i = 0; i < call.fd_count(); ++i) {
    const int fd = call.fd(i);
    if (!(call.reply().fd_flags[i] & door::kFdCloseOnExec)) raw(SYS_fcntl, fd, F_SETFD, 0);
    if (!write_all(argument + call.reply().fd_argument_offset[i], &fd, sizeof fd)) return -EFAULT;
  }
  for (unsigned i = 0; i < call.fd_count(); ++i) (void)call.take_fd(i);
  return 0;
}

long file_ioctl(int fd, const Descriptor& descriptor, unsigned command, std::uint64_t argument) {
  if (descriptor.error != 0) return -descriptor.error;
  door::RequestHeader request{};
  request.kind = door::kIoctl;
  request.file_id = descriptor.file_id;
  request.command = command;
  request.argument = argument;
  Call call;
  if (const int error = call.perform_on(fd, request)) return -error;
  if (const long error = install_fds(call, argument)) return error;
  return call.value();
}

// A dma-buf may be the first thing of the machine that this process sees.
bool is_dma_buf_to_meet(int fd, Descriptor* descriptor, unsigned command) {
  int error = 0;
  if (descriptor->kind != DescriptorKind::kForeign || !is_dma_buf_command(command)) return false;
  if (known_machine() != nullptr || !S_ISREG(descriptor->info.st_mode)) return false;
  if (meet_machine(&error) == nullptr) return false;
  *descriptor = describe(fd);
  return is_dma_buf(*descriptor);
}

}  // namespace

UNDERSTUDY_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  // The kernel looks at 32 bits.
  const unsigned command = static_cast<unsigned>(request);
  if (!root::active() || concerns_only_the_descriptor(command)) return next_of_ioctl(fd, request, argument);
  Descriptor descriptor = describe(fd);
  if (descriptor.kind == DescriptorKind::kFile)
    return as_library_result(file_ioctl(fd, descriptor, command, reinterpret_cast<std::uint64_t>(argument)));
  if (is_dma_buf(descriptor) || is_dma_buf_to_meet(fd, &descriptor, command))
    return as_library_result(dma_buf_ioctl(command, reinterpret_cast<std::uint64_t>(argument)));
  return next_of_ioctl(fd, request, argument);
}

}  // namespace understudy::shim
