#include "runtime/driver/ioctl.h"

#include <sys/ioctl.h>

#include <cerrno>

namespace hsa_rt {

Result<int> retrying_ioctl(int fd, uint32_t command, void* args) {
  int returned = 0;
  do {
    returned = ::ioctl(fd, static_cast<unsigned long>(command), args);
  } while (returned == -1 && (errno == EINTR || errno == EAGAIN));
  if (returned == -1) return Errno{errno};
  return returned;
}

}  // namespace hsa_rt
