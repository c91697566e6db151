#include "runtime/driver/ioctl.h"

#include <sys/ioctl.h>

#include <cerrno>

namespace hsa_rt {

Result<int> single_ioctl(int fd, uint32_t command, void* args) {
  const int returned = ::ioctl(fd, static_cast<unsigned long>(command), args);
  if (returned == -1) return Errno{errno};
  return returned;
}

Result<int> retrying_ioctl(int fd, uint32_t command, void* args) {
  for (;;) {
    Result<int> outcome = single_ioctl(fd, command, args);
    if (outcome || (outcome.error().value != EINTR && outcome.error().value != EAGAIN)) return outcome;
  }
}

}  // namespace hsa_rt
