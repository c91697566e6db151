// Client: a process that holds files of the machine, and the only way to its memory and descriptors.
//
// Owner: ClientTable, which keeps one Client per live address space that has spoken to the machine; drivers
// hold shared references and drop what they keep for it when on_gone runs. A process that execs becomes a new
// Client. Units: addresses and sizes are bytes in the client's address space. Errors: memory access fails
// with EFAULT (nothing partial is reported unless the name says so); descriptors with EBADF. Thread-safety:
// all methods may be called from any thread. Mirrors: current->mm with get_user/copy_from_user, and fget();
// kernel/exit.c for the moment it goes.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "sim/core/fd.h"
#include "sim/core/result.h"

namespace understudy {

class Reactor;

// Reads and writes another process's memory. The default goes through process_vm_readv/writev; a door that
// knows the client's shim supplies one that asks the shim where the kernel denies that.
class ClientMemory {
 public:
  virtual ~ClientMemory() = default;
  // Bytes moved before the first inaccessible page; EPERM when access to the process is denied altogether.
  virtual Result<std::size_t> read_some(std::uint64_t address, std::span<std::byte> into) = 0;
  virtual Result<std::size_t> write_some(std::uint64_t address, std::span<const std::byte> from) = 0;

  // All bytes or EFAULT.
  Result<void> read(std::uint64_t address, std::span<std::byte> into);
  Result<void> write(std::uint64_t address, std::span<const std::byte> from);

  template <typename T>
  Result<T> read_value(std::uint64_t address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    TRY(read(address, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
  template <typename T>
  Result<void> write_value(std::uint64_t address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(address, std::as_bytes(std::span(&value, 1)));
  }
  // `count` is checked against `max_count` (EINVAL is the caller's business) before memory is reserved.
  template <typename T>
  Result<std::vector<T>> read_array(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    TRY(read(address, std::as_writable_bytes(std::span(values))));
    return values;
  }
};

class Client {
 public:
  Client(pid_t pid, UniqueFd pidfd);
  Client(const Client&) = delete;

  pid_t pid() const { return pid_; }
  // Never reused, unlike pids.
  std::uint64_t id() const { return id_; }
  uid_t uid() const { return uid_; }
  // The task's comm, at first contact.
  const std::string& name() const { return name_; }
  int pidfd() const { return pidfd_.get(); }
  bool gone() const { return gone_.load(std::memory_order_acquire); }

  ClientMemory& memory() { return *memory_.load(std::memory_order_acquire); }
  // Replaces the memory accessor (the shim fall-back); the old one stays valid until the client is destroyed.
  void use_memory(std::unique_ptr<ClientMemory> memory);

  // True once the process has said hello through the shim.
  bool has_shim() const { return has_shim_.load(std::memory_order_relaxed); }
  void note_shim() { has_shim_.store(true, std::memory_order_relaxed); }
  // True once the process has told, through the shim, that it is exiting in good order.
  bool said_goodbye() const { return said_goodbye_.load(std::memory_order_relaxed); }
  void note_goodbye() { said_goodbye_.store(true, std::memory_order_relaxed); }

  // Identity (st_dev, st_ino, ...) of what descriptor `fd` refers to in the client. EBADF when not open.
  Result<struct stat> stat_fd(int fd) const;
  // A duplicate of the client's descriptor, in the server. EBADF, EPERM.
  Result<UniqueFd> take_fd(int fd) const;
  // Effective capability bit (CAP_*) of the process, as /proc tells.
  bool has_capability(int capability) const;

 private:
  friend class ClientTable;
  const pid_t pid_;
  const std::uint64_t id_;
  const UniqueFd pidfd_;
  uid_t uid_ = 0;
  std::string name_;
  std::string image_;  // what exec changes: see ClientTable::resolve
  std::atomic<bool> gone_{false};
  std::atomic<bool> has_shim_{false};
  std::atomic<bool> said_goodbye_{false};
  std::atomic<ClientMemory*> memory_{nullptr};
  std::mutex mutex_;
  std::vector<std::unique_ptr<ClientMemory>> memories_;  // guarded by mutex_
};

using ClientRef = std::shared_ptr<Client>;

class ClientTable {
 public:
  explicit ClientTable(Reactor& reactor) : reactor_(reactor) {}
  ~ClientTable();

  // The client that thread `tid` belongs to, made at first sight. ESRCH when there is no such thread.
  Result<ClientRef> resolve(pid_t tid);
  // The same, and a look whether the process has called exec since: then the old client is gone and a new one
  // made.
  Result<ClientRef> resolve_fresh(pid_t tid);
  // The shim's close-on-exec socket closed: retires the client if the process has called exec (or ended), and
  // not when the program merely closed all its descriptors.
  void connection_closed(const ClientRef& client);
  // The address space is gone: runs the observers once.
  void retire(const ClientRef& client);
  std::vector<ClientRef> all() const;

  // `observer` runs once per client, on a server thread without locks, after the client is gone.
  void on_gone(std::function<void(const ClientRef&)> observer);

 private:
  struct Watched {
    ClientRef client;
    std::uint64_t watch = 0;
  };
  Result<ClientRef> resolve_process(pid_t pid, bool check_exec);
  Reactor& reactor_;
  mutable std::mutex mutex_;
  std::map<pid_t, Watched> by_pid_;
  std::map<pid_t, std::weak_ptr<Client>> by_tid_;
  std::vector<std::function<void(const ClientRef&)>> observers_;
};

}  // namespace understudy
