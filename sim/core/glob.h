// Globs over names of nodes, processes and calls, as fault plans and trace filters write them.
//
// Owner, units, errors: none. Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace understudy {

// "*", "?" and literal characters; case-sensitive.
bool glob_matches(std::string_view glob, std::string_view text);

// Does `glob` name this call: with its full kernel name ("DRM_IOCTL_GEM_CLOSE") or without the interface's prefix?
bool call_matches(std::string_view glob, std::string_view call_name);

}  // namespace understudy
