#include "sim/door/shim/connection.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>

#include "sim/door/shim/raw.h"
#include "sim/door/shim/root.h"

namespace understudy::shim {
namespace {

// Idle connections beyond these are closed.
constexpr int kKeptConnections = 8;
constexpr int kMaxConnections = 64;

struct Slot {
  std::atomic<bool> busy{false};
  Connection connection;
};

constinit Slot slots[kMaxConnections];
// Whose descriptors the slots hold. A vfork child has another pid and the same memory.
constinit std::atomic<pid_t> owner{0};
constinit std::atomic<std::uint32_t> generation{0};

constinit door::HelloReply machine{};
constinit std::atomic<bool> machine_known{false};

constinit const std::uint64_t memory_probe = door::kMemoryProbe;

// The program may have closed the descriptor, and opened something else under its number.
bool is_still_ours(const Connection& connection) {
  struct stat info;
  return raw(SYS_fstat, connection.fd, &info) == 0 && S_ISSOCK(info.st_mode) &&
         info.st_ino == connection.inode;
}

void disconnect(Connection& connection) {
  if (connection.fd >= 0 && is_still_ours(connection)) raw(SYS_close, connection.fd);
  connection.fd = -1;
}

// Not 0, 1 or 2, should the program have closed one of those: its output would go to the server.
long open_socket() {
  const long fd = raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const long above = raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  raw(SYS_close, fd);
  return above;
}

long connect_to_server(long fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string_view path = root::socket();
  if (path.size() >= sizeof address.sun_path) return -ENAMETOOLONG;
  ::memcpy(address.sun_path, path.data(), path.size());
  long result;
  do {
    result = raw(SYS_connect, fd, &address, sizeof address);
  } while (result == -EINTR);
  return result;
}

// Yama keeps processes from looking at others that are not their children, unless these agree.
void let_server_at_memory(int fd) {
  const long setting = raw(SYS_openat, AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (setting < 0) return;
  char scope = 0;
  const long got = raw(SYS_read, setting, &scope, 1);
  raw(SYS_close, setting);
  ucred server{};
  socklen_t size = sizeof server;
  if (got == 1 && scope == '1' && raw(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &server, &size) == 0)
    raw(SYS_prctl, PR_SET_PTRACER, server.pid, 0, 0, 0);
}

bool say_hello(Connection& connection, std::uint32_t flags) {
  door::RequestHeader request{};
  request.kind = door::kHello;
  request.flags = flags | door::kMemoryFallback;
  request.command = door::kProtocolVersion;
  request.address = reinterpret_cast<std::uint64_t>(&memory_probe);
  Received reply;
  if (exchange(connection, request, nullptr, &reply) != 0) return false;
  if (reply.header.value != 0 || reply.header.payload_bytes != sizeof machine) return false;
  if (!machine_known.load(std::memory_order_acquire)) {
    // Threads that meet it at the same time write the same.
    ::memcpy(&machine, reply.payload, sizeof machine);
    machine_known.store(true, std::memory_order_release);
  }
  if (reply.header.reply_flags & door::kMemoryIsDenied) let_server_at_memory(connection.fd);
  return true;
}

int connect(Connection& connection, std::uint32_t hello_flags) {
  if (connection.buffers == nullptr) {
    const long address = raw(SYS_mmap, nullptr, 2 * std::size_t{door::kMaxMessageBytes},
                             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address < 0 && address > -4096) return static_cast<int>(-address);
    connection.buffers = reinterpret_cast<std::byte*>(address);
  }
  const long fd = open_socket();
  if (fd < 0) return static_cast<int>(-fd);
  struct stat info;
  connection.fd = static_cast<int>(fd);
  connection.generation = generation.load(std::memory_order_relaxed);
  connection.inode = raw(SYS_fstat, fd, &info) == 0 ? info.st_ino : 0;
  if (connect_to_server(fd) == 0 && say_hello(connection, hello_flags)) return 0;
  disconnect(connection);
  return ENODEV;
}

// In the child of fork(2), with no other thread around: the parent's connections are not ours, and as long as
// we hold them, the server would not see the parent go.
void start_over_in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  owner.store(static_cast<pid_t>(raw(SYS_getpid)), std::memory_order_relaxed);
  for (Slot& slot : slots) {
    disconnect(slot.connection);
    slot.busy.store(false, std::memory_order_relaxed);
  }
}

bool may_use_slots() {
  const pid_t self = static_cast<pid_t>(raw(SYS_getpid));
  pid_t expected = 0;
  return owner.compare_exchange_strong(expected, self) || expected == self;
}

__attribute__((constructor)) void start() {
  if (!root::active()) return;
  (void)may_use_slots();
  ::pthread_atfork(nullptr, nullptr, &start_over_in_child);
}

}  // namespace

std::uint32_t fork_generation() {
  return generation.load(std::memory_order_relaxed);
}

Lease::Lease() {
  for (int i = 0; may_use_slots() && i < kMaxConnections; ++i) {
    if (slots[i].busy.exchange(true, std::memory_order_acquire)) continue;
    slot_ = i;
    connection_ = &slots[i].connection;
    if (connection_->fd >= 0 && !is_still_ours(*connection_)) connection_->fd = -1;
    if (connection_->fd < 0) renew();
    return;
  }
  connection_ = &temporary_;
  renew();
}

Lease::~Lease() {
  if (slot_ < 0) {
    drop();
    if (temporary_.buffers != nullptr)
      raw(SYS_munmap, temporary_.buffers, 2 * std::size_t{door::kMaxMessageBytes});
    return;
  }
  // After a fork inside the call (by a signal handler) the slot has already been given back.
  if (generation_ != fork_generation()) return;
  if (slot_ >= kKeptConnections) drop();
  slots[slot_].busy.store(false, std::memory_order_release);
}

void Lease::renew() {
  drop();
  error_ = connect(*connection_, slot_ == 0 ? door::kProcessConnection : 0u);
}

void Lease::drop() {
  disconnect(*connection_);
}

bool is_connected() {
  if (!may_use_slots()) return false;
  for (const Slot& slot : slots) {
    if (slot.connection.fd >= 0) return true;
  }
  return false;
}

const door::HelloReply* known_machine() {
  return machine_known.load(std::memory_order_acquire) ? &machine : nullptr;
}

const door::HelloReply* meet_machine(int* error) {
  if (const door::HelloReply* known = known_machine()) return known;
  const Lease lease;
  *error = lease.error();
  return lease.error() == 0 ? &machine : nullptr;
}

}  // namespace understudy::shim
