// The settings of a machine by name: one table for machine files ([limits] events = 64) and for --set
// limits.events=64.
//
// Owner: constant data. Units: sizes in bytes, also as "8 GiB". Errors: apply_setting says what is accepted.
// Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/cli/machine_description.h"

namespace understudy::cli {

using SettingValue = std::variant<std::int64_t, bool, std::string>;

// Sets the setting named `key`; otherwise the sentence to show the user.
std::optional<std::string> apply_setting(MachineDescription& machine, std::string_view key,
                                         const SettingValue& value);
bool is_setting(std::string_view key);
// "limits.events  a count": for --help.
std::vector<std::pair<std::string, std::string>> setting_help();
// "8 GiB", "512M", "4096".
std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace understudy::cli
