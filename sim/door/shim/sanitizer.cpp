// AddressSanitizer's run-time library refuses to start behind any other library, since that might allocate
// memory first. The shim does not; a program's own default options come before these.
#include "sim/door/shim/export.h"

UNDERSTUDY_EXPORT const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
