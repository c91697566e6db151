// module/amdgpu: the loaded driver and its parameters. Doors make /proc/modules from it.
//
// Owner: stateless; refers to the machine, which owns the tree. Units: none. Errors: none. Thread-safety:
// while the machine is built. Mirrors: kernel/module/sysfs.c, amdgpu_drv.c (module_param).
#pragma once

#include "sim/core/machine.h"

namespace understudy::kfd {

void add_amdgpu_module(Machine& machine);

}  // namespace understudy::kfd
