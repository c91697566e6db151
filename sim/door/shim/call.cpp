#include "sim/door/shim/call.h"

#include "sim/door/shim/raw.h"

namespace understudy::shim {

int Call::perform(door::RequestHeader request, const void* payload) {
  if (lease_.error() != 0) return lease_.error();
  close_fds();
  long error = exchange(lease_.connection(), request, payload, &received_);
  if (error == -EPIPE) {
    // The connection is an old one; nothing has begun on it.
    lease_.renew();
    if (lease_.error() != 0) return lease_.error();
    error = exchange(lease_.connection(), request, payload, &received_);
  }
  if (error == 0) return 0;
  close_fds();
  lease_.drop();
  return error == -EPIPE ? ENODEV : static_cast<int>(-error);
}

int Call::perform_on(int fd, door::RequestHeader request) {
  const int error = perform(request);
  if (error != 0 || value() != -ESTALE || !(reply().reply_flags & door::kFileIsAmbiguous)) return error;
  if (raw(SYS_ioctl, fd, UNDERSTUDY_IOC_FILE_ID, &request.file_id) < 0) return EIO;
  request.flags |= door::kFileIsExact;
  return perform(request);
}

int Call::take_fd(unsigned index) {
  const int fd = received_.fds[index];
  received_.fds[index] = -1;
  return fd;
}

void Call::close_fds() {
  for (unsigned i = 0; i < received_.fd_count; ++i) {
    if (received_.fds[i] >= 0) raw(SYS_close, received_.fds[i]);
  }
  received_.fd_count = 0;
}

}  // namespace understudy::shim
