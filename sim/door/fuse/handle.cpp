#include "sim/door/fuse/handle.h"

#include <poll.h>

#include "sim/core/machine.h"

namespace understudy::door {

void Handle::poll(fuse_req_t request, fuse_pollhandle* waiter) {
  if (waiter != nullptr) ::fuse_pollhandle_destroy(waiter);
  ::fuse_reply_poll(request, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}

std::uint64_t HandleTable::add(std::shared_ptr<Handle> handle) {
  const std::lock_guard lock(mutex_);
  handles_.emplace(next_, std::move(handle));
  return next_++;
}

std::shared_ptr<Handle> HandleTable::find(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return handles_.at(number);
}

std::shared_ptr<Handle> HandleTable::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return std::move(handles_.extract(number).mapped());
}

Result<Caller> caller_of(Machine& machine, fuse_req_t request, bool look_for_exec) {
  const pid_t tid = ::fuse_req_ctx(request)->pid;
  // 0: a process of a pid namespace that ours does not see.
  Result<ClientRef> client = tid == 0        ? Result<ClientRef>(Errno(ESRCH))
                             : look_for_exec ? machine.clients().resolve_fresh(tid)
                                             : machine.clients().resolve(tid);
  if (!client) {
    ::fuse_reply_err(request, EIO);
    return client.error();
  }
  return Caller{std::move(client).value(), tid};
}

}  // namespace understudy::door
