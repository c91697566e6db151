#include "tests/runtime/hsa_fixture.h"

#include <dirent.h>

#include <cstdio>
#include <fstream>

namespace hsa_rt::test {

int open_fd_count() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::string protection_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char protection[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, protection) != 3) continue;
    const auto at = reinterpret_cast<unsigned long>(address);
    if (at >= begin && at < end) return std::string(protection, 3);
  }
  return "";
}

}  // namespace hsa_rt::test
