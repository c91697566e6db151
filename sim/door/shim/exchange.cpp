#include "sim/door/shim/exchange.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sim/door/shim/client_memory.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

long send_request(const Connection& connection, const door::RequestHeader& request, const void* payload) {
  iovec parts[2] = {{const_cast<door::RequestHeader*>(&request), sizeof request},
                    {const_cast<void*>(payload), request.payload_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = request.payload_bytes == 0 ? 1 : 2;
  long sent;
  do {
    sent = raw(SYS_sendmsg, connection.fd, &message, MSG_NOSIGNAL);
  } while (sent == -EINTR && fork_generation() == connection.generation);
  return sent < 0 ? -EPIPE : 0;
}

void take_fds(const msghdr& message, Received* received) {
  received->fds_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&message), control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    received->fd_count = static_cast<unsigned>((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    ::memcpy(received->fds, CMSG_DATA(control), received->fd_count * sizeof(int));
  }
}

// The length of the message, 0 when the server has hung up, or -errno.
long receive_message(const Connection& connection, Received* received) {
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof received->fds)];
  iovec part{connection.buffers, door::kMaxMessageBytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const long got = raw(SYS_recvmsg, connection.fd, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) return got;
  take_fds(message, received);
  if (got < static_cast<long>(sizeof received->header)) return 0;
  ::memcpy(&received->header, connection.buffers, sizeof received->header);
  received->payload = connection.buffers + sizeof received->header;
  if (received->header.payload_bytes > got - sizeof received->header) return 0;
  return got;
}

long move_memory(const Received& wish, bool is_pending, std::byte* into) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(wish.header.value);
  if (!is_pending) return -ESTALE;
  if (wish.header.kind == door::kWriteMemory)
    return write_some(wish.header.extra, wish.payload, wish.header.payload_bytes);
  if (bytes > door::kMaxMessageBytes - sizeof(door::RequestHeader)) return -EINVAL;
  return read_some(wish.header.extra, into, bytes);
}

long answer_memory(const Connection& connection, const Received& wish, std::uint64_t pending_call) {
  std::byte* const out = connection.buffers + door::kMaxMessageBytes;
  const long moved = move_memory(wish, wish.header.call_id == pending_call, out);
  door::RequestHeader answer{};
  answer.kind = door::kMemoryData;
  answer.call_id = wish.header.call_id;
  answer.argument = static_cast<std::uint64_t>(moved);
  if (wish.header.kind == door::kReadMemory && moved > 0)
    answer.payload_bytes = static_cast<std::uint32_t>(moved);
  return send_request(connection, answer, out);
}

}  // namespace

long exchange(Connection& connection, door::RequestHeader request, const void* payload, Received* received) {
  request.call_id = connection.next_call_id++;
  request.tid = static_cast<std::int32_t>(raw(SYS_gettid));
  if (const long error = send_request(connection, request, payload)) return error;
  bool cancelled = false;
  for (;;) {
    const long got = receive_message(connection, received);
    if (fork_generation() != connection.generation) return -EIO;
    if (got == -EINTR) {
      // A handler has run that does not want the call restarted: the server is told, and answers soon.
      door::RequestHeader cancel{};
      cancel.kind = door::kCancel;
      cancel.call_id = request.call_id;
      if (!cancelled && send_request(connection, cancel, nullptr) != 0) return -EIO;
      cancelled = true;
      continue;
    }
    if (got <= 0) return -EIO;
    switch (received->header.kind) {
      case door::kReadMemory:
      case door::kWriteMemory:
        if (answer_memory(connection, *received, request.call_id) != 0) return -EIO;
        break;
      case door::kReply:
        if (received->header.call_id == request.call_id) return 0;
        [[fallthrough]];
      default:
        return -EIO;
    }
  }
}

}  // namespace understudy::shim
