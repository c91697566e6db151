// A library whose initialiser uses the device: it runs before the shim's, which the dynamic linker
// initialises last.
#include <fcntl.h>
#include <sys/ioctl.h>

namespace {

bool works() {
  const int fd = ::open("/dev/accel/accel0", O_RDWR | O_CLOEXEC);
  unsigned long long args[2] = {21, 0};
  return ::ioctl(fd, _IOWR('T', 1, unsigned long long[2]), args) == 0 && args[1] == 42;
}

const bool worked = works();

}  // namespace

bool early_library_worked() {
  return worked && works();
}
