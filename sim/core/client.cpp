#include "sim/core/client.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/core/process_memory.h"
#include "sim/core/reactor.h"

namespace understudy {
namespace {

std::uint64_t next_client_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string read_proc(pid_t pid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  char chunk[4096];
  for (ssize_t got; fd && (got = ::read(fd.get(), chunk, sizeof chunk)) > 0;) text.append(chunk, got);
  return text;
}

// One "Key:\tvalue" line of /proc/PID/status.
std::string_view status_line(std::string_view status, std::string_view key) {
  std::size_t at = 0;
  while (at < status.size()) {
    const std::size_t end = std::min(status.find('\n', at), status.size());
    const std::string_view line = status.substr(at, end - at);
    if (line.starts_with(key)) {
      const std::size_t value = line.find_first_not_of("\t ", key.size());
      return value == std::string_view::npos ? std::string_view{} : line.substr(value);
    }
    at = end + 1;
  }
  return {};
}

pid_t thread_group_of(pid_t tid) {
  const std::string status = read_proc(tid, "status");
  const std::string_view value = status_line(status, "Tgid:");
  return value.empty() ? -1 : std::atoi(std::string(value).c_str());
}

// What changes when the process execs and at no other time: the auxiliary vector carries the new image's
// random addresses (AT_RANDOM, AT_SYSINFO_EHDR, AT_EXECFN).
std::string image_of(pid_t pid) {
  return read_proc(pid, "auxv");
}

}  // namespace

Client::Client(pid_t pid, UniqueFd pidfd) : pid_(pid), id_(next_client_id()), pidfd_(std::move(pidfd)) {
  use_memory(std::make_unique<ProcessMemory>(pid));
  name_ = read_proc(pid, "comm");
  if (!name_.empty() && name_.back() == '\n') name_.pop_back();
  const std::string status = read_proc(pid, "status");
  uid_ = static_cast<uid_t>(std::atoi(std::string(status_line(status, "Uid:")).c_str()));
}

void Client::use_memory(std::unique_ptr<ClientMemory> memory) {
  const std::lock_guard lock(mutex_);
  memories_.push_back(std::move(memory));
  memory_.store(memories_.back().get(), std::memory_order_release);
}

Result<struct stat> Client::stat_fd(int fd) const {
  if (fd < 0) return Errno(EBADF);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid_, fd);
  // The file may lie in our own fuse mount, whose answer would come from the very threads that ask: what the
  // kernel remembers must do.
  struct statx found {};
  if (::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &found) != 0) return Errno(EBADF);
  struct stat info {};
  info.st_dev = makedev(found.stx_dev_major, found.stx_dev_minor);
  info.st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor);
  info.st_ino = found.stx_ino;
  info.st_mode = found.stx_mode;
  info.st_size = static_cast<off_t>(found.stx_size);
  return info;
}

Result<UniqueFd> Client::take_fd(int fd) const {
  if (fd < 0) return Errno(EBADF);
  UniqueFd copy(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd_.get(), fd, 0)));
  if (!copy) return last_errno();
  return copy;
}

bool Client::has_capability(int capability) const {
  const std::string status = read_proc(pid_, "status");
  const std::uint64_t effective =
      std::strtoull(std::string(status_line(status, "CapEff:")).c_str(), nullptr, 16);
  return (effective >> capability) & 1;
}

ClientTable::~ClientTable() {
  std::map<pid_t, Watched> watched;
  {
    const std::lock_guard lock(mutex_);
    watched.swap(by_pid_);
  }
  // Unlocked: a watch that is running may be on its way into retire().
  for (auto& [pid, client] : watched) reactor_.unwatch(client.watch);
}

Result<ClientRef> ClientTable::resolve(pid_t tid) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_tid_.find(tid); found != by_tid_.end()) {
      if (ClientRef client = found->second.lock(); client && !client->gone()) {
        // The tid may have been given to another process since.
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/task/%d", client->pid_, tid);
        if (::access(path, F_OK) == 0) return client;
      }
      by_tid_.erase(found);
    }
  }
  const pid_t pid = thread_group_of(tid);
  if (pid < 0) return Errno(ESRCH);
  ClientRef client = TRY(resolve_process(pid, false));
  const std::lock_guard lock(mutex_);
  if (by_tid_.size() > 4096) std::erase_if(by_tid_, [](const auto& entry) { return entry.second.expired(); });
  by_tid_[tid] = client;
  return client;
}

Result<ClientRef> ClientTable::resolve_fresh(pid_t tid) {
  const pid_t pid = thread_group_of(tid);
  if (pid < 0) return Errno(ESRCH);
  return resolve_process(pid, true);
}

Result<ClientRef> ClientTable::resolve_process(pid_t pid, bool check_exec) {
  ClientRef previous;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_pid_.find(pid); found != by_pid_.end()) previous = found->second.client;
  }
  if (previous && !previous->gone()) {
    if (!check_exec || image_of(pid) == previous->image_) return previous;
    retire(previous);
  }
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return Errno(ESRCH);
  auto client = std::make_shared<Client>(pid, std::move(pidfd));
  client->image_ = image_of(pid);
  {
    const std::lock_guard lock(mutex_);
    const auto [place, inserted] = by_pid_.try_emplace(pid);
    // Somebody else was faster.
    if (!inserted && place->second.client && !place->second.client->gone()) return place->second.client;
    place->second = Watched{client, 0};
  }
  const Result<Reactor::WatchId> watch =
      reactor_.watch(client->pidfd(), EPOLLIN, [this, weak = std::weak_ptr(client)](std::uint32_t) {
        if (const ClientRef dead = weak.lock()) retire(dead);
      });
  if (!watch) {
    retire(client);
    return watch.error();
  }
  bool already_gone = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_pid_.find(pid);
    already_gone = found == by_pid_.end() || found->second.client != client;
    if (!already_gone) found->second.watch = watch.value();
  }
  if (already_gone) reactor_.unwatch(watch.value());
  return client;
}

void ClientTable::connection_closed(const ClientRef& client) {
  if (image_of(client->pid()) != client->image_) retire(client);
}

void ClientTable::retire(const ClientRef& client) {
  if (client->gone_.exchange(true, std::memory_order_acq_rel)) return;
  std::uint64_t watch = 0;
  std::vector<std::function<void(const ClientRef&)>> observers;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_pid_.find(client->pid());
        found != by_pid_.end() && found->second.client == client) {
      watch = found->second.watch;
      by_pid_.erase(found);
    }
    observers = observers_;
  }
  if (watch != 0) reactor_.unwatch(watch);
  for (const auto& observer : observers) observer(client);
}

std::vector<ClientRef> ClientTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ClientRef> clients;
  for (const auto& [pid, watched] : by_pid_) clients.push_back(watched.client);
  return clients;
}

void ClientTable::on_gone(std::function<void(const ClientRef&)> observer) {
  const std::lock_guard lock(mutex_);
  observers_.push_back(std::move(observer));
}

}  // namespace understudy
