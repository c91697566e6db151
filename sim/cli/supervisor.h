// The supervisor: the process the user sees. It forks the server, passes signals on to CMD, passes CMD's exit
// status through, prints the report, and clears away what a killed server leaves behind.
//
// Owner: one per process. Units: none. Errors: UsageError before anything is started. Thread-safety: one
// thread.
#pragma once

#include <string>

#include "sim/cli/server.h"

namespace understudy::cli {

struct SupervisorOptions {
  bool verbose = false;
  std::string report_file;     // empty: stderr
  bool in_background = false;  // the report goes where `understudy stop` looks for it
  // serve: called once the machine is up, or with a message when it did not start.
  std::function<void(const std::string& failure)> on_started;
};

// Runs a machine to its end; returns the exit status for the user.
int supervise(const ServerPlan& plan, const SupervisorOptions& options, const std::string& machine_name);

}  // namespace understudy::cli
