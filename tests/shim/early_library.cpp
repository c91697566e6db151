// A library whose initialiser uses the device: it runs before the shim's, which the dynamic linker
// initialises last. What it holds it gives back in its destructor, which runs after the shim's would.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

class Device {
 public:
  Device() : fd_(::open("/dev/accel/accel0", O_RDWR | O_CLOEXEC)) {
    if (::ioctl(fd_, _IOWR('T', 10, Export), &export_) != 0) export_.fd = -1;
  }
  ~Device() {
    ::close(export_.fd);
    ::close(fd_);
  }

  bool works() const {
    unsigned long long args[2] = {21, 0};
    return export_.fd >= 0 && ::ioctl(fd_, _IOWR('T', 1, unsigned long long[2]), args) == 0 && args[1] == 42;
  }

 private:
  struct Export {
    unsigned long long size_bytes;
    int fd;
    unsigned close_on_exec;
  };
  const int fd_;
  Export export_{4096, -1, 1};
};

const Device device;

}  // namespace

bool early_library_worked() {
  return device.works();
}
