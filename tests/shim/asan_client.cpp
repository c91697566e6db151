// A program built with AddressSanitizer, whose run-time library stands between the shim and libc.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

int main() {
  const int fd = ::open("/dev/accel/accel0", O_RDWR | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISCHR(info.st_mode)) return 1;
  const auto args = std::make_unique<unsigned long long[]>(2);
  args[0] = 21;
  if (::ioctl(fd, _IOWR('T', 1, unsigned long long[2]), args.get()) != 0 || args[1] != 42) return 2;
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 3;
  *static_cast<char*>(mapped) = 1;
  DIR* const directory = ::opendir("/dev/accel");
  if (directory == nullptr) return 4;
  ::closedir(directory);
  FILE* const file = ::fopen("/sys/class/accel/accel0/device/vendor", "r");
  if (file == nullptr) return 5;
  ::fclose(file);
  return 0;
}
