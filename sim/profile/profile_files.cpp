#include "sim/profile/profile_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <set>

#include "sim/profile/profile_reader.h"

namespace understudy::profile {
namespace {

constexpr std::string_view kExtension = ".toml";

bool is_path(std::string_view name_or_path) {
  return name_or_path.find('/') != std::string_view::npos || name_or_path.ends_with(kExtension);
}

std::vector<std::string> as_strings(const Directories& directories) {
  std::vector<std::string> all;
  for (const auto& directory : directories) all.push_back(directory.string());
  return all;
}

}  // namespace

Directories directories(const std::filesystem::path& installed) {
  Directories all;
  const char* variable = ::getenv("UNDERSTUDY_PROFILES");
  for (std::string_view rest = variable == nullptr ? "" : variable; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) all.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  all.push_back(installed);
  return all;
}

std::optional<std::filesystem::path> find_file(std::string_view name_or_path, std::string_view kind,
                                               const Directories& directories, std::string* why) {
  std::error_code ignored;
  if (is_path(name_or_path)) {
    std::filesystem::path path(name_or_path);
    if (std::filesystem::is_regular_file(path, ignored)) return path;
    *why = fmt::format("there is no profile file {}", name_or_path);
    return std::nullopt;
  }
  for (const auto& directory : directories) {
    std::filesystem::path path = directory / (std::string(name_or_path) + std::string(kExtension));
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  const std::vector<std::string> known = names(directories, kind);
  if (known.empty()) {
    *why = fmt::format("there is no profile '{}', nor any other in {}", name_or_path,
                       fmt::join(as_strings(directories), ", "));
  } else {
    *why = fmt::format("there is no profile '{}'; there are {}", name_or_path, fmt::join(known, ", "));
  }
  return std::nullopt;
}

std::vector<std::string> names(const Directories& directories, std::string_view kind) {
  std::set<std::string> all;
  for (const auto& directory : directories) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      if (entry.path().extension() != kExtension) continue;
      if (kind.empty() || kind_of_file(entry.path(), directories) == kind)
        all.insert(entry.path().stem().string());
    }
  }
  return {all.begin(), all.end()};
}

}  // namespace understudy::profile
