// Where the parts of this installation lie, relative to the program itself, so that an installed tree can be
// moved and the build tree works alike.
//
// Owner: stateless. Units: none. Errors: paths are returned whether or not something is there. Thread-safety:
// stateless.
#pragma once

#include <string>

namespace understudy::cli {

std::string shim_path();
// What $UNDERSTUDY_PROFILES adds to.
std::string profile_directory();

}  // namespace understudy::cli
