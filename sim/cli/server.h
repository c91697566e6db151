// The server process: holds one machine, opens its door, runs CMD on it, and takes everything down again.
//
// Owner: forked by the supervisor, which it tells what happens. If the supervisor dies, the server ends CMD
// and the machine's other clients and clears the root away itself. Units: none. Errors: a machine that cannot
// start is reported with ControlKind::kFailed. Thread-safety: one main thread beside the machine's.
#pragma once

#include <signal.h>

#include <functional>
#include <string>
#include <vector>

#include "sim/cli/control.h"
#include "sim/cli/machine_description.h"
#include "sim/cli/observation.h"
#include "sim/cli/open_door.h"
#include "sim/cli/registry.h"
#include "sim/core/machine.h"

namespace understudy::cli {

// Adds the devices of a description to an empty machine; throws UsageError.
using MachineComposer = std::function<void(Machine&, const MachineDescription&)>;

struct ServerPlan {
  MachineDescription description;
  MachineComposer compose;
  DoorChoice door = DoorChoice::kAuto;
  std::string mount_point;           // of a second tree; empty: none
  std::vector<std::string> command;  // empty: serve until told to stop
  std::string shim;
  bool report_as_json = false;
  ObservationPlan observation;
};

// `command_mask` is the signal mask CMD gets. Returns the process's exit status.
int run_server(const ServerPlan& plan, const MachineRoot& root, Control control,
               const sigset_t& command_mask);

}  // namespace understudy::cli
