// MachineBuilder: from a description to the devices of a machine.
//
// Owner: stateless. Units: none. Errors: UsageError names the profile or setting that does not fit.
// Thread-safety: stateless.
#pragma once

#include "sim/cli/machine_description.h"
#include "sim/core/machine.h"

namespace understudy::cli {

void compose_machine(Machine& machine, const MachineDescription& description);

}  // namespace understudy::cli
