// UsageError: the user asked for something that cannot be; what() is the one line to print, and the command
// exits with kExitUsage.
#pragma once

#include <stdexcept>

namespace understudy::cli {

enum ExitStatus : int {
  kExitUsage = 2,
  // CMD succeeded, but left findings of a kind that --fail-on names.
  kExitFindings = 3,
  // CMD succeeded, but the machine's server died under it.
  kExitServerLost = 125,
  // As env(1) and shells have it.
  kExitCannotExecute = 126,
  kExitNotFound = 127,
  kExitSignalBase = 128,
};

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace understudy::cli
