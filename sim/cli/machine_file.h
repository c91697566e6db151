// Machine files: TOML that describes a machine (devices, settings).
//
// Owner: stateless. Units: as the settings table. Errors: UsageError, one line that names file, line and
// column, what is wrong and what is accepted. Thread-safety: stateless.
#pragma once

#include <string>
#include <string_view>

#include "sim/cli/machine_description.h"

namespace understudy::cli {

// Adds what `path` says to `description`.
void read_machine_file(const std::string& path, MachineDescription& description);
// "limits.events=64"; the value is written as in a machine file, quotes may be left out.
void apply_set_flag(std::string_view assignment, MachineDescription& description);
// "gfx90a:4,gfx1030"; `flag` names it in messages.
std::vector<DeviceRequest> parse_device_list(std::string_view flag, std::string_view text);

}  // namespace understudy::cli
