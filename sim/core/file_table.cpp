// FileTable: see file.h. The server's end of a socket-backed file carries queued reads to the client and
// tells, by hanging up, that the last descriptor anywhere is closed.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "sim/core/file.h"
#include "sim/core/reactor.h"

namespace understudy {
namespace {

Result<void> name_socket(int fd, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) return Errno(ENAMETOOLONG);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) return last_errno();
  return {};
}

}  // namespace

FileTable::~FileTable() {
  std::map<FileId, Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  // Unlocked: a watch that is running may be on its way into remove().
  for (auto& [id, entry] : entries) {
    if (entry.watch != 0) reactor_.unwatch(entry.watch);
  }
}

FileId FileTable::random_id() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return FileId{(value >> 1) | 1};
}

FileId FileTable::add(const FileRef& file) {
  FileId id = random_id();
  while (!add(file, id)) id = random_id();
  return id;
}

Result<void> FileTable::add(const FileRef& file, FileId id) {
  const std::lock_guard lock(mutex_);
  if (!entries_.try_emplace(id, Entry{.file = file}).second) return Errno(EEXIST);
  file->id_ = id;
  return {};
}

void FileTable::bind_identity(FileId id, dev_t device, ino_t inode) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.identity = {device, inode};
  by_identity_[{device, inode}] = id;
}

FileRef FileTable::by_id(FileId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.file;
}

Result<FileRef> FileTable::by_client_fd(const Client& client, int fd) const {
  const struct stat info = TRY(client.stat_fd(fd));
  const std::lock_guard lock(mutex_);
  const auto found = by_identity_.find({info.st_dev, info.st_ino});
  if (found == by_identity_.end()) return Errno(ENOENT);
  return entries_.at(found->second).file;
}

void FileTable::remove(FileId id) {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    entry = std::move(found->second);
    entries_.erase(found);
    const auto identity = by_identity_.find(entry.identity);
    if (identity != by_identity_.end() && identity->second == id) by_identity_.erase(identity);
  }
  if (entry.watch != 0) reactor_.unwatch(entry.watch);
  entry.file->set_read_notify(nullptr);
  entry.file->let_go();
}

std::vector<FileRef> FileTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<FileRef> files;
  for (const auto& [id, entry] : entries_) files.push_back(entry.file);
  return files;
}

Result<UniqueFd> FileTable::make_descriptor(const FileRef& file) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return last_errno();
  UniqueFd server_end(ends[0]);
  UniqueFd client_end(ends[1]);
  struct stat info {};
  if (::fstat(client_end.get(), &info) != 0) return last_errno();
  if (::fcntl(server_end.get(), F_SETFL, O_NONBLOCK) != 0) return last_errno();
  // A node without read(2) is always ready, and reading it must not wait for a message that never comes.
  const bool never_read = file->device_number() != 0 && !file->has_read();
  if (never_read && ::shutdown(server_end.get(), SHUT_WR) != 0) return last_errno();

  const FileId id = add(file);
  char suffix[48];
  std::snprintf(suffix, sizeof suffix, "/%016llx/%llx", static_cast<unsigned long long>(id.value),
                static_cast<unsigned long long>(file->device_number()));
  Result<void> named = name_socket(server_end.get(), socket_prefix_ + suffix);
  Result<Reactor::WatchId> watch =
      named ? reactor_.watch(server_end.get(), EPOLLIN | EPOLLRDHUP,
                             [this, id](std::uint32_t events) { socket_ready(id, events); })
            : Result<Reactor::WatchId>(named.error());
  if (!watch) {
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
    return watch.error();
  }
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[id];
    entry.server_end = std::move(server_end);
    entry.watch = watch.value();
  }
  bind_identity(id, info.st_dev, info.st_ino);
  file->set_read_notify([this, id] { flush_reads(id); });
  return client_end;
}

void FileTable::flush_reads(FileId id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.server_end) return;
  for (;;) {
    const Result<std::vector<std::byte>> message = found->second.file->take_read(SIZE_MAX);
    if (!message) return;
    // A reader that does not read loses the newest, as the drivers' bounded queues do.
    if (::send(found->second.server_end.get(), message.value().data(), message.value().size(),
               MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      return;
    }
  }
}

// Clients write(2) to socket-backed files straight into the socket (SMI event masks).
void FileTable::socket_ready(FileId id, std::uint32_t events) {
  FileRef file;
  int server_end = -1;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    file = found->second.file;
    server_end = found->second.server_end.get();
  }
  if (events & EPOLLIN) {
    std::array<std::byte, 4096> bytes;
    for (ssize_t got; (got = ::recv(server_end, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;) {
      (void)file->write(Caller{}, std::span(bytes).first(static_cast<std::size_t>(got)));
    }
  }
  if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) remove(id);
}

}  // namespace understudy
