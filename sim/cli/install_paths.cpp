#include "sim/cli/install_paths.h"

#include <filesystem>

namespace understudy::cli {
namespace {

std::filesystem::path prefix() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
}

}  // namespace

std::string shim_path() {
  return prefix() / UNDERSTUDY_LIBDIR / "understudy" / "libunderstudy-shim.so";
}

std::string profile_directory() {
  return prefix() / UNDERSTUDY_DATADIR / "understudy" / "profiles";
}

}  // namespace understudy::cli
