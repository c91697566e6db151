// Owned paths: which of the host's names are the machine's.
//
// Owner: a constant table. Paths are absolute and plain: one slash between names, no "." or "..". Units:
// none. Errors: none. Thread-safety: pure. Mirrors: where devtmpfs, sysfs and procfs show the drivers.
#pragma once

#include <string_view>

namespace understudy::shim {

enum class Claim : unsigned char {
  kNone,
  kWhole,    // what the machine's tree says, is so: what it lacks is absent
  kOverlay,  // the machine's devices lie between the host's; see `device_end`
};

struct Ownership {
  Claim claim = Claim::kNone;
  // kOverlay: if the tree has the path up to here, it has the rest, too.
  std::size_t device_end = 0;
};

Ownership ownership_of(std::string_view path);

// Could `name` be a part of an owned path? Almost no name of an ordinary program is, which is what spares
// relative paths a look at the working directory.
bool occurs_in_owned_paths(std::string_view name);

}  // namespace understudy::shim
