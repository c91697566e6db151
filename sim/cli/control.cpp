#include "sim/cli/control.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>

#include <fmt/format.h>

#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

// Longer texts travel in pieces.
constexpr std::size_t kMaxTextBytes = 32 * 1024;

struct Head {
  ControlKind kind;
  std::int64_t value;
};

}  // namespace

std::pair<Control, Control> Control::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw UsageError(fmt::format("cannot make a socket pair: {}", std::strerror(errno)));
  return {Control(UniqueFd(ends[0])), Control(UniqueFd(ends[1]))};
}

void Control::send(ControlKind kind, std::int64_t value, std::string_view text) const {
  Head head{kind, value};
  do {
    const std::string_view piece = text.substr(0, kMaxTextBytes);
    text.remove_prefix(piece.size());
    iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(piece.data()), piece.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    // The other side may be gone; its end of the line will say so.
    (void)!::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (!text.empty());
}

std::optional<ControlMessage> Control::receive() const {
  Head head{};
  std::string text(kMaxTextBytes, '\0');
  iovec parts[2] = {{&head, sizeof head}, {text.data(), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t got = 0;
  while ((got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got < static_cast<ssize_t>(sizeof head)) return std::nullopt;
  text.resize(static_cast<std::size_t>(got) - sizeof head);
  return ControlMessage{head.kind, head.value, std::move(text)};
}

}  // namespace understudy::cli
