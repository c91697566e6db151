#include "sim/cli/machine_builder.h"

#include <fmt/format.h>

#include "sim/cli/usage_error.h"

namespace understudy::cli {

void compose_machine(Machine&, const MachineDescription& description) {
  for (const DeviceRequest& gpu : description.gpus)
    throw UsageError(
        fmt::format("unknown profile '{}' (understudy profiles lists what there is)", gpu.profile));
}

}  // namespace understudy::cli
