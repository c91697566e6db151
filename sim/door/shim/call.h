// Call: what a hooked function asks the server, on a connection of its own: leased at construction, given
// back at destruction. Several requests may follow each other.
//
// Owner: the frame of the hooked function. Units: bytes. Errors: perform returns 0 or an errno of the
// transport (ENODEV: no server; EIO: it went in mid-call); the server's own verdict is value().
// Thread-safety: one frame's.
#pragma once

#include "sim/door/shim/connection.h"

namespace understudy::shim {

class Call {
 public:
  Call() = default;
  ~Call() { close_fds(); }
  Call(const Call&) = delete;

  // The payload's length is request.payload_bytes.
  int perform(door::RequestHeader request, const void* payload = nullptr);
  // The same for a request that concerns an open file: should its inode not tell which one, asks `fd` itself.
  int perform_on(int fd, door::RequestHeader request);

  const door::ReplyHeader& reply() const { return received_.header; }
  std::int64_t value() const { return received_.header.value; }
  // Of the latest answer; valid until the next request.
  const std::byte* payload() const { return received_.payload; }
  bool fds_lost() const { return received_.fds_lost; }
  unsigned fd_count() const { return received_.fd_count; }
  int fd(unsigned index) const { return received_.fds[index]; }
  // The caller owns it from now on.
  int take_fd(unsigned index);

 private:
  void close_fds();
  Lease lease_;
  Received received_;
};

}  // namespace understudy::shim
