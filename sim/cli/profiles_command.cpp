// profiles: the device models that this installation knows.
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/install_paths.h"
#include "sim/cli/usage_error.h"
#include "sim/profile/profile_files.h"

namespace understudy::cli {

int profiles_command(const std::string& name) {
  const profile::Directories directories = profile::directories(profile_directory());
  if (name.empty()) {
    for (const std::string& known : profile::names(directories)) fmt::print("{}\n", known);
    return 0;
  }
  std::string why;
  const std::optional<std::filesystem::path> path = profile::find_file(name, "", directories, &why);
  if (!path) throw UsageError(why);
  std::ifstream file(*path);
  fmt::print("{}", std::string(std::istreambuf_iterator<char>(file), {}));
  return 0;
}

}  // namespace understudy::cli
