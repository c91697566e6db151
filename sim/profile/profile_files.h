// Where device profiles lie: profiles/<name>.toml in a list of directories.
//
// Owner: stateless. Units: none. Errors: a sentence for the user in `why`. Thread-safety: stateless.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::profile {

// In the order they are searched.
using Directories = std::vector<std::filesystem::path>;

// The directories of $UNDERSTUDY_PROFILES (separated by colons), then `installed`.
Directories directories(const std::filesystem::path& installed);

// `name_or_path` is a path if it has a slash or ends in ".toml", otherwise a name to look for. `kind` is that
// of the names offered in `why`, see names().
std::optional<std::filesystem::path> find_file(std::string_view name_or_path, std::string_view kind,
                                               const Directories& directories, std::string* why);

// Names of the profiles of a kind ("gpu", "npu"), sorted; all kinds if it is empty. Files that cannot be read
// are left out.
std::vector<std::string> names(const Directories& directories, std::string_view kind = {});

}  // namespace understudy::profile
