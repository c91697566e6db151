// ChannelServer: the machine's end of the channel: listens at <root>/ctl and keeps the connections.
//
// Owner: the server process (or a test), beside the machine it serves; stop() or destruction hangs up on
// every shim. Units: none. Errors: create returns the libc errno of the socket. Thread-safety: all methods
// from any thread. Mirrors: nothing in the kernel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/machine.h"
#include "sim/door/channel/connection.h"
#include "sim/door/door.h"

namespace understudy::door {

// The connections of one client: those with a call pending can move its memory.
class ClientConnections {
 public:
  void add(const ConnectionRef& connection);
  std::vector<ConnectionRef> all();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_;  // guarded by mutex_
};

// What the machine's own user may ask of it while it runs: kInject with a plan, kLedger. Returns the answer's text.
using Administration = std::function<std::string(MessageKind kind, std::string_view payload)>;

class ChannelServer {
 public:
  static Result<std::unique_ptr<ChannelServer>> create(Machine& machine, const Door& door,
                                                       const std::string& path);
  ~ChannelServer();
  ChannelServer(const ChannelServer&) = delete;

  Machine& machine() { return machine_; }
  const Door& door() const { return door_; }
  HelloReply hello_reply() const;
  // Set before the first client arrives; empty: refused.
  void set_administration(Administration administration) { administration_ = std::move(administration); }
  const Administration& administration() const { return administration_; }
  std::size_t connection_count() const;

  // Called by connections: after hello, and at the end.
  void joined(const ConnectionRef& connection, const ClientRef& client);
  void ended(const ConnectionRef& connection);

 private:
  ChannelServer(Machine& machine, const Door& door, UniqueFd listener, dev_t memfd_device);
  void accept_all();

  // Outlives the server in the machine's list of observers.
  struct Clients {
    std::mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<ClientConnections>> connections;  // by Client::id()
  };

  Machine& machine_;
  const Door& door_;
  const UniqueFd listener_;
  const dev_t memfd_device_;
  Administration administration_;
  const std::shared_ptr<Clients> clients_;
  UniqueFd spare_;  // given up to be able to refuse a connection when descriptors run out
  Reactor::WatchId watch_ = 0;
  mutable std::mutex mutex_;
  std::set<ConnectionRef> connections_;  // guarded by mutex_
};

}  // namespace understudy::door
