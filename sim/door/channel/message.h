// Messages of the channel: one SOCK_SEQPACKET packet in, one out, with the sender's pid as the kernel
// verified it and with descriptors.
//
// Owner: a Message borrows its payload from the buffer it was received into. Units: bytes.
// Errors: receive: EAGAIN nothing there, EPIPE the peer is gone, EPROTO malformed; send: the libc errno.
// Thread-safety: stateless; any thread may send, two receivers each get whole messages.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "sim/core/fd.h"
#include "sim/core/result.h"
#include "sim/door/channel_protocol.h"

namespace understudy::door {

struct Message {
  RequestHeader header{};
  std::span<const std::byte> payload;
  pid_t sender = 0;
  // A path payload: the bytes before the first NUL.
  std::string_view text() const;
};

// One message, without waiting. Descriptors that came with it are closed: no request carries any.
Result<Message> receive_message(int socket, std::span<std::byte> buffer);

// Never waits: a peer that does not read gets EAGAIN.
Result<void> send_message(int socket, const ReplyHeader& header, std::span<const std::byte> payload,
                          std::span<const int> fds);

// The listening socket at `path` (removed first). ENAMETOOLONG, EACCES, ENOSPC, ...
Result<UniqueFd> listen_at(const std::string& path);

}  // namespace understudy::door
