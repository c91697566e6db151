// Connection: one shim socket: of a thread, or of a process (close-on-exec: its end tells of exec or exit).
//
// Owner: ChannelServer, until the peer hangs up; calls in flight hold references. Units: bytes.
// Errors: a malformed message is answered with EPROTO and ends the connection. Thread-safety: messages are
// read by one thread at a time (the reactor's); answers and memory requests come from any thread. `mutex_`
// guards the tables and is never held while a driver runs. Mirrors: nothing in the kernel; what the system
// call entry does for an ioctl.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sim/core/machine.h"
#include "sim/door/channel/message.h"

namespace understudy::door {

class ChannelCall;
class ChannelServer;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ChannelServer& server, UniqueFd socket);
  Connection(const Connection&) = delete;

  // Starts reading; from then on the reactor keeps the connection alive.
  Result<void> start();
  // Makes the reactor end it; from any thread.
  void abandon();
  // Ends it from outside the reactor: returns when nothing reads any more.
  void stop();

  // Sends a call's answer (called by ChannelCall).
  void answer(ChannelCall& call, int value);

  // Moves bytes through the shim, for a client whose memory the kernel denies us: while one of its calls is
  // pending here, EFAULT otherwise. `kind` is kReadMemory (fills `into`) or kWriteMemory (sends `from`).
  Result<std::size_t> move_memory(MessageKind kind, std::uint64_t address, std::span<std::byte> into,
                                  std::span<const std::byte> from);
  // This thread is in a handler of one of its messages.
  bool is_read_by_this_thread() const;

 private:
  struct MemoryRequest;
  using Handler = Result<void> (Connection::*)(const Message&);
  struct Row;
  static const Row kRows[];

  void readable(std::uint32_t events);
  // False: the connection has ended.
  bool read_one(std::span<std::byte> buffer);
  Result<void> dispatch(const Message& message);
  // Hangs up, cancels what is pending and tells the server, which is not touched afterwards.
  void end();

  // The handlers of kRows. An errno means: malformed, answer and hang up.
  Result<void> hello(const Message& message);
  Result<void> open(const Message& message);
  Result<void> ioctl(const Message& message);
  Result<void> map(const Message& message);
  Result<void> mapped(const Message& message);
  Result<void> cancel(const Message& message);
  Result<void> memory_data(const Message& message);
  Result<void> read_attribute(const Message& message);
  Result<void> write_file(const Message& message);
  Result<void> goodbye(const Message& message);
  Result<void> administer(const Message& message);
  Result<void> ownership(const Message& message);

  // The call a request starts, registered as pending; null when it was answered with an errno.
  Result<std::shared_ptr<ChannelCall>> begin(const Message& message, CallKind kind);
  Caller caller_of(const Message& message);
  // Answers a request that is no call of a driver.
  void reply_to(const Message& message, std::int64_t value, std::span<const std::byte> payload = {},
                std::uint32_t reply_flags = 0);

  ChannelServer& server_;
  Machine& machine_;
  const UniqueFd socket_;
  Reactor::WatchId watch_ = 0;  // set once by start()

  // Belong to the reading thread.
  ClientRef client_;
  bool is_process_connection_ = false;
  pid_t checked_tid_ = 0;

  std::mutex mutex_;
  std::condition_variable memory_moved_;
  bool ended_ = false;  // guarded by mutex_
  // Weak, so that a call which every owner has dropped is noticed (and answered) by its destructor.
  std::map<std::uint64_t, std::weak_ptr<ChannelCall>> pending_;  // guarded by mutex_
  // In the order sent, which is the order in which the shim answers.
  std::deque<std::shared_ptr<MemoryRequest>> memory_requests_;  // guarded by mutex_
};

using ConnectionRef = std::shared_ptr<Connection>;

}  // namespace understudy::door
