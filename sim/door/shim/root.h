// Root: the machine that this process is on, as the environment names it (see channel_protocol.h).
//
// Owner: static storage, filled at first use: by the constructor, or earlier by a static initialiser that
// opens a file; what the program does to its environment later does not matter. Units: none. Errors: without
// a usable root everything passes through. Thread-safety: all functions from any thread.
#pragma once

#include <string_view>

namespace understudy::shim {

inline constexpr unsigned kMaxTreeBytes = 112;  // the socket beside it must fit a sockaddr_un

namespace root {

bool active();
// The functions below require active().

// "<root>/fs"; NUL-terminated.
std::string_view tree();
// "<root>/ctl"; NUL-terminated.
std::string_view socket();
// The machine has not been put away (it may be dead). Does not ask the machine.
bool exists();
// What `path` (below the tree on disk) is called on the machine, or null: "<root>/fs/dev/kfd" -> "/dev/kfd".
const char* name_on_machine(const char* path);

}  // namespace root
}  // namespace understudy::shim
