// A bare client of the channel: what the shim does, without its manners.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/core/fd.h"
#include "sim/door/channel_protocol.h"

namespace understudy::test {

struct ChannelReply {
  bool hung_up = true;
  door::ReplyHeader header{};
  std::vector<std::byte> payload;
  std::vector<UniqueFd> fds;

  std::string text() const { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }
};

class ChannelClient {
 public:
  explicit ChannelClient(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  }

  static door::RequestHeader request(door::MessageKind kind) {
    static std::uint64_t next_call_id = 1;
    door::RequestHeader header{};
    header.kind = kind;
    header.call_id = next_call_id++;
    header.tid = ::gettid();
    return header;
  }

  void send_bytes(const void* bytes, std::size_t size) {
    (void)!::send(socket_.get(), bytes, size, MSG_NOSIGNAL);
  }

  void send(door::RequestHeader header, std::string_view payload = {}) {
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    std::string message(reinterpret_cast<const char*>(&header), sizeof header);
    message += payload;
    send_bytes(message.data(), message.size());
  }

  // The next message, of whatever kind.
  ChannelReply receive_any() {
    ChannelReply reply;
    std::vector<std::byte> buffer(door::kMaxMessageBytes);
    iovec part{buffer.data(), buffer.size()};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * door::kMaxHandedFds)];
    msghdr raw{};
    raw.msg_iov = &part;
    raw.msg_iovlen = 1;
    raw.msg_control = control;
    raw.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket_.get(), &raw, MSG_CMSG_CLOEXEC);
    if (got < static_cast<ssize_t>(sizeof reply.header)) return reply;
    reply.hung_up = false;
    std::memcpy(&reply.header, buffer.data(), sizeof reply.header);
    reply.payload.assign(buffer.begin() + sizeof reply.header, buffer.begin() + got);
    for (cmsghdr* entry = CMSG_FIRSTHDR(&raw); entry != nullptr; entry = CMSG_NXTHDR(&raw, entry)) {
      if (entry->cmsg_type != SCM_RIGHTS) continue;
      std::vector<int> fds((entry->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      std::memcpy(fds.data(), CMSG_DATA(entry), fds.size() * sizeof(int));
      for (const int fd : fds) reply.fds.emplace_back(fd);
    }
    return reply;
  }

  // The next answer; moves memory for the server meanwhile.
  ChannelReply receive() {
    for (;;) {
      ChannelReply reply = receive_any();
      if (reply.hung_up || reply.header.kind == door::kReply) return reply;
      ++memory_requests;
      door::RequestHeader answer = request(door::kMemoryData);
      answer.call_id = reply.header.call_id;
      answer.argument = static_cast<std::uint64_t>(reply.header.value);
      auto* const memory = reinterpret_cast<char*>(reply.header.extra);
      if (reply.header.kind == door::kReadMemory) {
        send(answer, std::string_view(memory, static_cast<std::size_t>(reply.header.value)));
      } else {
        std::memcpy(memory, reply.payload.data(), reply.payload.size());
        send(answer);
      }
    }
  }

  ChannelReply call(const door::RequestHeader& header, std::string_view payload = {}) {
    send(header, payload);
    return receive();
  }

  ChannelReply hello(std::uint32_t flags = 0) {
    door::RequestHeader header = request(door::kHello);
    header.command = door::kProtocolVersion;
    header.flags = flags | door::kMemoryFallback;
    header.address = reinterpret_cast<std::uint64_t>(&probe_);
    return call(header);
  }

  void hang_up() { socket_.reset(); }
  int fd() const { return socket_.get(); }

  int memory_requests = 0;

 private:
  const std::uint64_t probe_ = door::kMemoryProbe;
  UniqueFd socket_;
};

}  // namespace understudy::test
