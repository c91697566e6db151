// inject and ledger: talking to a machine that is up, over its channel.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/registry.h"
#include "sim/cli/usage_error.h"
#include "sim/core/fd.h"
#include "sim/door/channel_protocol.h"

namespace understudy::cli {
namespace {

class AdministrationLine {
 public:
  explicit AdministrationLine(const std::string& machine_name) : name_(machine_name) {
    const MachineInfo machine = require_machine(machine_name);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = machine.root + "/ctl";
    if (path.size() >= sizeof address.sun_path) throw UsageError(fmt::format("{}: path too long", path));
    std::memcpy(address.sun_path, path.data(), path.size());
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw UsageError(fmt::format("machine '{}' does not answer: {}", name_, std::strerror(errno)));
    }
    door::RequestHeader hello{};
    hello.kind = door::kHello;
    hello.command = door::kProtocolVersion;
    (void)exchange(hello, {});
  }

  std::string ask(door::MessageKind kind, std::string_view payload) {
    door::RequestHeader request{};
    request.kind = kind;
    return exchange(request, payload);
  }

 private:
  std::string exchange(door::RequestHeader request, std::string_view payload) {
    request.call_id = ++last_call_id_;
    request.tid = ::gettid();
    request.payload_bytes = static_cast<std::uint32_t>(payload.size());
    std::string message(reinterpret_cast<const char*>(&request), sizeof request);
    message += payload;
    std::string answer(door::kMaxMessageBytes, '\0');
    if (::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL) < 0) fail(errno);
    const ssize_t got = ::recv(socket_.get(), answer.data(), answer.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(door::ReplyHeader))) fail(got < 0 ? errno : EPIPE);
    door::ReplyHeader reply;
    std::memcpy(&reply, answer.data(), sizeof reply);
    if (reply.value < 0) fail(static_cast<int>(-reply.value));
    return answer.substr(sizeof reply, std::min<std::size_t>(reply.payload_bytes, got - sizeof reply));
  }
  [[noreturn]] void fail(int error) const {
    throw UsageError(fmt::format("machine '{}' refuses: {}", name_, std::strerror(error)));
  }
  const std::string name_;
  UniqueFd socket_;
  std::uint64_t last_call_id_ = 0;
};

}  // namespace

int inject_command(const std::string& name, const std::string& plan_file) {
  std::ifstream file(plan_file);
  if (!file) throw UsageError(fmt::format("{}: cannot be read: {}", plan_file, std::strerror(errno)));
  const std::string plan(std::istreambuf_iterator<char>(file), {});
  const std::string complaint = AdministrationLine(name).ask(door::kInject, plan);
  if (!complaint.empty()) throw UsageError(fmt::format("{}: {}", plan_file, complaint));
  return 0;
}

int ledger_command(const std::string& name) {
  fmt::print("{}", AdministrationLine(name).ask(door::kLedger, {}));
  return 0;
}

}  // namespace understudy::cli
