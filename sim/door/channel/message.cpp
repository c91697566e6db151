#include "sim/door/channel/message.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace understudy::door {
namespace {

constexpr int kListenBacklog = 512;

pid_t sender_of(const msghdr& message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(const_cast<msghdr*>(&message), control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(control), sizeof credentials);
    return credentials.pid;
  }
  return 0;
}

}  // namespace

std::string_view Message::text() const {
  const std::string_view all(reinterpret_cast<const char*>(payload.data()), payload.size());
  return all.substr(0, all.find('\0'));
}

Result<Message> receive_message(int socket, std::span<std::byte> buffer) {
  iovec part{buffer.data(), buffer.size()};
  // Room for the credentials alone: descriptors do not fit, so the kernel closes them.
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(ucred))];
  msghdr raw{};
  raw.msg_iov = &part;
  raw.msg_iovlen = 1;
  raw.msg_control = control;
  raw.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &raw, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Errno(EAGAIN) : Errno(EPIPE);
  if (got == 0) return Errno(EPIPE);
  if ((raw.msg_flags & MSG_TRUNC) || static_cast<std::size_t>(got) < sizeof(RequestHeader))
    return Errno(EPROTO);
  Message message;
  std::memcpy(&message.header, buffer.data(), sizeof message.header);
  message.payload =
      buffer.subspan(sizeof message.header, static_cast<std::size_t>(got) - sizeof message.header);
  if (message.header.payload_bytes != message.payload.size()) return Errno(EPROTO);
  message.sender = sender_of(raw);
  if (message.sender <= 0) return Errno(EPROTO);
  return message;
}

Result<void> send_message(int socket, const ReplyHeader& header, std::span<const std::byte> payload,
                          std::span<const int> fds) {
  iovec parts[2] = {{const_cast<ReplyHeader*>(&header), sizeof header},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * kMaxHandedFds)] = {};
  msghdr raw{};
  raw.msg_iov = parts;
  raw.msg_iovlen = payload.empty() ? 1 : 2;
  if (!fds.empty()) {
    raw.msg_control = control;
    raw.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&raw);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket, &raw, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return last_errno();
  return {};
}

Result<UniqueFd> listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Errno(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return last_errno();
  ::unlink(path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return last_errno();
  // The directory above decides who reaches the machine; a client may have dropped privileges since.
  if (::chmod(path.c_str(), 0777) != 0) return last_errno();
  const int on = 1;
  // Accepted sockets inherit it, so the very first message carries the sender's pid.
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return last_errno();
  if (::listen(socket.get(), kListenBacklog) != 0) return last_errno();
  return socket;
}

}  // namespace understudy::door
