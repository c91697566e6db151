// The command line: `understudy COMMAND ...`.
//
// Owner: stateless. Units: none. Errors: returned as the exit status, after one line on stderr.
// Thread-safety: one thread.
#pragma once

#include "sim/cli/server.h"

namespace understudy::cli {

// `compose` makes the devices: the program's own, or a test's.
int run_command_line(int argc, char** argv, const MachineComposer& compose);

}  // namespace understudy::cli
