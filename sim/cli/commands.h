// The commands behind the command line, one function each.
//
// Owner: stateless. Errors: UsageError, or the returned exit status. Thread-safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/server.h"

namespace understudy::cli {

// What run and serve share.
struct MachineOptions {
  ServerPlan plan;
  std::vector<std::string> required;  // host checks
  bool verbose = false;
  std::string report_file;
};

int run_command(MachineOptions options);
int serve_command(MachineOptions options, const std::string& name, bool background);
int exec_command(const std::string& name, const std::vector<std::string>& command);
int ps_command();
int stop_command(const std::string& name);
int profiles_command(const std::string& name);
int doctor_command();
int inject_command(const std::string& name, const std::string& plan_file);
int ledger_command(const std::string& name);

}  // namespace understudy::cli
