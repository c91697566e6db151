/* An engine plug-in for the tests: executes one kernel, a vector addition, recognised by the first bytes of
 * its kernel object ("vadd"). Kernel arguments: addresses of two float inputs and of the output, then the
 * element count. */
#include <string.h>

#include "sim/kfd/engine/plugin.h"

static int started;

static void* create(void) {
  return &started;
}

static void destroy(void* self) {
  (void)self;
}

static enum understudy_dispatch_result dispatch(void* self, const struct understudy_dispatch* d) {
  uint64_t arguments[4];
  (void)self;
  if (d->kernel_descriptor == NULL || memcmp(d->kernel_descriptor, "vadd", 4) != 0)
    return UNDERSTUDY_DISPATCH_NOT_HANDLED;
  if (d->memory->read(d->memory->context, d->kernarg_address, arguments, sizeof arguments) != 0) {
    return UNDERSTUDY_DISPATCH_FAILED;
  }
  for (uint64_t index = 0; index < arguments[3]; ++index) {
    float a, b, sum;
    if (d->memory->read(d->memory->context, arguments[0] + index * sizeof a, &a, sizeof a) != 0) break;
    if (d->memory->read(d->memory->context, arguments[1] + index * sizeof b, &b, sizeof b) != 0) break;
    sum = a + b;
    if (d->memory->write(d->memory->context, arguments[2] + index * sizeof sum, &sum, sizeof sum) != 0) break;
  }
  return UNDERSTUDY_DISPATCH_EXECUTED;
}

const struct understudy_engine_table* understudy_engine_plugin(void) {
  static const struct understudy_engine_table table = {UNDERSTUDY_ENGINE_ABI_VERSION, "test: vector addition",
                                                       create, destroy, dispatch};
  return &table;
}
