// Hardware contexts of an NPU and the commands they run.
//
// A context is configured once, with all configurations (PDIs) it may be asked for; a command that needs one
// it does not have makes the old context go and a new one come, with the new configuration added. Commands of
// one batch go down as a chain.
//
// Mirrors: drivers/accel/amdxdna/aie2_ctx.c, aie2_message.c (packet and slot layouts).
#pragma once

#include <memory>

#include "runtime/driver/queues.h"

namespace hsa_rt::xdna {

class XdnaDevice;

std::unique_ptr<CommandContext> make_xdna_context(XdnaDevice& device);

}  // namespace hsa_rt::xdna
