// The line between the supervisor and the server of one machine: small messages over a socket pair, whose end
// also tells each of the other's death.
//
// Owner: one Control per process. Units: none. Errors: receive returns nothing when the other side is gone.
// Thread-safety: one thread per process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sim/core/fd.h"

namespace understudy::cli {

enum class ControlKind : std::uint32_t {
  // server -> supervisor
  kReady,       // value: pid of CMD, 0 without; text: the door taken, and why
  kFailed,      // text: why the machine did not start
  kChildEnded,  // value: wait status of CMD
  kReport,      // a piece of the report; text
  kFinished,    // everything is taken down
  // supervisor -> server
  kStop,
};

struct ControlMessage {
  ControlKind kind{};
  std::int64_t value = 0;
  std::string text;
};

class Control {
 public:
  explicit Control(UniqueFd socket) : socket_(std::move(socket)) {}
  static std::pair<Control, Control> make_pair();

  int fd() const { return socket_.get(); }
  void send(ControlKind kind, std::int64_t value = 0, std::string_view text = {}) const;
  // Waits for a message.
  std::optional<ControlMessage> receive() const;
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
};

}  // namespace understudy::cli
