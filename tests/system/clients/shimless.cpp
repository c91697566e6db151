// A static binary, which no preload reaches: it goes through the mount named on its command line, with plain
// system calls.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "uapi/drm.h"
#include "uapi/kfd.h"

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "usage: shimless TREE");
  const std::string tree = argv[1];
  const int kfd = ::open((tree + "/dev/kfd").c_str(), O_RDWR);
  uapi::kfd::kfd_ioctl_get_version_args kfd_version{};
  require(::ioctl(kfd, uapi::kfd::GetVersion::kCmd, &kfd_version) == 0, "GET_VERSION");
  require(kfd_version.major_version == 1, "KFD's major version");

  // A pointer in the struct: the server reaches for this process's memory.
  char name[16] = {};
  uapi::drm::drm_version version{};
  version.name = reinterpret_cast<std::uint64_t>(name);
  version.name_len = sizeof name;
  const int render = ::open((tree + "/dev/dri/renderD128").c_str(), O_RDWR);
  require(::ioctl(render, uapi::drm::Version::kCmd, &version) == 0, "DRM_IOCTL_VERSION");
  require(std::strcmp(name, "amdgpu") == 0, "the driver's name");

  char text[16];
  const int attribute = ::open((tree + "/sys/class/kfd/kfd/topology/nodes/1/gpu_id").c_str(), O_RDONLY);
  require(::read(attribute, text, sizeof text) > 1, "gpu_id");
  std::puts("OK");
}
