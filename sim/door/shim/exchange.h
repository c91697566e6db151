// exchange(): one request and its answer over one connection, and what may come between the two: the server
// moving the program's memory, a signal.
//
// Owner: the caller owns the connection while it lasts; Received borrows its payload from the connection and
// owns the descriptors. Units: bytes. Errors: -EPIPE: the server was gone before, nothing has begun; -EIO: it
// went, or spoke nonsense, in mid-call. Thread-safety: one thread per connection. Mirrors: the system call
// entry.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "sim/door/channel_protocol.h"

namespace understudy::shim {

struct Connection {
  int fd = -1;
  ino_t inode = 0;               // of the socket: tells whether the program has closed or replaced `fd`
  std::uint32_t generation = 0;  // see fork_generation()
  std::uint64_t next_call_id = 1;
  std::byte* buffers = nullptr;  // two messages: one to receive into, one to send from
};

struct Received {
  door::ReplyHeader header{};
  const std::byte* payload = nullptr;
  int fds[door::kMaxHandedFds];
  unsigned fd_count = 0;
  bool fds_lost = false;  // the program's descriptor table is full
};

// Grows with each fork(2) this process descends from: a frame that finds it changed runs in the child, where
// the answer will not come.
std::uint32_t fork_generation();

long exchange(Connection& connection, door::RequestHeader request, const void* payload, Received* received);

}  // namespace understudy::shim
