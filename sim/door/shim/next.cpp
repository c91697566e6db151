#include "sim/door/shim/next.h"

#include <errno.h>

namespace understudy::shim {
namespace {

thread_local bool looking_up = false;

}  // namespace

void* find_next(const char* name) {
  if (looking_up) return nullptr;
  const int saved = errno;
  looking_up = true;
  void* const found = ::dlsym(RTLD_NEXT, name);
  looking_up = false;
  errno = saved;
  return found;
}

}  // namespace understudy::shim
