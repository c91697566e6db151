#include "sim/door/channel/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "sim/door/channel/shim_memory.h"

namespace understudy::door {

void ClientConnections::add(const ConnectionRef& connection) {
  const std::lock_guard lock(mutex_);
  std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  connections_.push_back(connection);
}

std::vector<ConnectionRef> ClientConnections::all() {
  const std::lock_guard lock(mutex_);
  std::vector<ConnectionRef> connections;
  for (const auto& weak : connections_) {
    if (ConnectionRef connection = weak.lock()) connections.push_back(std::move(connection));
  }
  return connections;
}

Result<std::unique_ptr<ChannelServer>> ChannelServer::create(Machine& machine, const Door& door,
                                                             const std::string& path) {
  UniqueFd listener = TRY(listen_at(path));
  const UniqueFd memfd = TRY(make_memfd("understudy", 1));
  struct stat info {};
  if (::fstat(memfd.get(), &info) != 0) return last_errno();
  std::unique_ptr<ChannelServer> server(new ChannelServer(machine, door, std::move(listener), info.st_dev));
  server->watch_ = TRY(machine.reactor().watch(server->listener_.get(), EPOLLIN,
                                               [raw = server.get()](std::uint32_t) { raw->accept_all(); }));
  return server;
}

ChannelServer::ChannelServer(Machine& machine, const Door& door, UniqueFd listener, dev_t memfd_device)
    : machine_(machine),
      door_(door),
      listener_(std::move(listener)),
      memfd_device_(memfd_device),
      clients_(std::make_shared<Clients>()),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  machine.clients().on_gone([weak = std::weak_ptr(clients_)](const ClientRef& client) {
    if (const std::shared_ptr<Clients> clients = weak.lock()) {
      const std::lock_guard lock(clients->mutex);
      clients->connections.erase(client->id());
    }
  });
}

ChannelServer::~ChannelServer() {
  if (watch_ != 0) machine_.reactor().unwatch(watch_);
  std::set<ConnectionRef> connections;
  {
    const std::lock_guard lock(mutex_);
    connections.swap(connections_);
  }
  for (const ConnectionRef& connection : connections) connection->stop();
}

HelloReply ChannelServer::hello_reply() const {
  HelloReply reply{};
  reply.shmem_device = memfd_device_;
  reply.fuse_device = door_.tree_device();
  std::strncpy(reply.prefix, machine_.socket_prefix().c_str(), sizeof reply.prefix - 1);
  return reply;
}

std::size_t ChannelServer::connection_count() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void ChannelServer::joined(const ConnectionRef& connection, const ClientRef& client) {
  std::shared_ptr<ClientConnections> connections;
  {
    const std::lock_guard lock(clients_->mutex);
    std::shared_ptr<ClientConnections>& slot = clients_->connections[client->id()];
    if (!slot) {
      slot = std::make_shared<ClientConnections>();
      client->use_memory(std::make_unique<ShimMemory>(client->pid(), slot));
      client->note_shim();
    }
    connections = slot;
  }
  connections->add(connection);
}

void ChannelServer::ended(const ConnectionRef& connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
}

void ChannelServer::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE) && spare_) {
      // Out of descriptors: the newcomer is refused rather than left waiting.
      spare_.reset();
      UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
      spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      continue;
    }
    if (!socket) return;
    const auto connection = std::make_shared<Connection>(*this, std::move(socket));
    {
      const std::lock_guard lock(mutex_);
      connections_.insert(connection);
    }
    if (!connection->start()) ended(connection);
  }
}

}  // namespace understudy::door
