// At exit(3): the last word to the machine, so that it knows what the program never gave back.
#include "sim/door/shim/call.h"
#include "sim/door/shim/root.h"

extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* library);

namespace understudy::shim {
namespace {

void say_goodbye(void*) {
  if (!is_connected()) return;
  door::RequestHeader request{};
  request.kind = door::kGoodbye;
  Call call;
  (void)call.perform(request);
}

// Handlers run in reverse order, and the one that runs the destructors of all libraries is registered after
// the libraries' constructors. One that belongs to no library and is registered here comes after them, and
// so after the runtimes that give things back in their destructors.
__attribute__((constructor)) void prepare() {
  if (root::active()) ::__cxa_atexit(&say_goodbye, nullptr, nullptr);
}

}  // namespace
}  // namespace understudy::shim
