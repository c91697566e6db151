// profiles: the device models that this installation knows.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/install_paths.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(profile_directory(), error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

int profiles_command(const std::string& name) {
  if (name.empty()) {
    for (const std::string& known : profile_names()) fmt::print("{}\n", known);
    return 0;
  }
  std::ifstream file(profile_directory() + "/" + name + ".toml");
  if (name.find('/') != std::string::npos || !file)
    throw UsageError(fmt::format("unknown profile '{}' (known: {})", name, fmt::join(profile_names(), ", ")));
  fmt::print("{}", std::string(std::istreambuf_iterator<char>(file), {}));
  return 0;
}

}  // namespace understudy::cli
