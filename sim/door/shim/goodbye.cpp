// At exit(3): the last word to the machine, so that it knows what the program never gave back.
#include "sim/door/shim/connection.h"

namespace understudy::shim {
namespace {

__attribute__((destructor)) void say_goodbye() {
  if (known_machine() == nullptr) return;
  Lease lease;
  if (lease.error() != 0) return;
  door::RequestHeader request{};
  request.kind = door::kGoodbye;
  Received reply;
  (void)exchange(lease.connection(), request, nullptr, &reply);
}

}  // namespace
}  // namespace understudy::shim
