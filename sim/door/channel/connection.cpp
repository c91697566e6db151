#include "sim/door/channel/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/core/process_memory.h"
#include "sim/door/channel/channel_call.h"
#include "sim/door/channel/server.h"

namespace understudy::door {
namespace {

// A thread waits for one call at a time; signal handlers that make calls of their own nest a few.
constexpr std::size_t kMaxPendingCalls = 16;
constexpr int kMessagesPerTurn = 32;
constexpr std::chrono::seconds kMemoryTimeout{10};

// The connection whose messages this thread is reading, if any: waiting for one of them must go on reading.
thread_local const Connection* reading_connection = nullptr;

class Reading {
 public:
  explicit Reading(const Connection* connection) : previous_(std::exchange(reading_connection, connection)) {}
  ~Reading() { reading_connection = previous_; }
  Reading(const Reading&) = delete;

 private:
  const Connection* const previous_;
};

bool is_thread_of(pid_t tid, pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
  return tid > 0 && ::access(path, F_OK) == 0;
}

// Another value than the probe's means a pid that is not the one we see, and denies as much.
bool is_memory_denied(pid_t pid, std::uint64_t probe_address) {
  const Result<std::uint64_t> seen = ProcessMemory(pid).read_value<std::uint64_t>(probe_address);
  return !seen || seen.value() != kMemoryProbe;
}

MmapRequest map_request_of(const RequestHeader& header) {
  MmapRequest request;
  request.address = header.address;
  request.length_bytes = header.length;
  request.protection = static_cast<int>(header.command);
  request.flags = static_cast<int>(header.map_flags);
  request.offset_bytes = header.argument;
  return request;
}

}  // namespace

struct Connection::MemoryRequest {
  std::uint64_t call_id = 0;
  std::span<std::byte> into;  // of the waiting thread
  std::size_t requested_bytes = 0;
  bool done = false;
  bool abandoned = false;  // nobody waits any more; `into` is gone
  Result<std::size_t> moved = Errno(EFAULT);
};

struct Connection::Row {
  MessageKind kind;
  Handler handler;
};

const Connection::Row Connection::kRows[] = {
    {kHello, &Connection::hello},
    {kOpen, &Connection::open},
    {kIoctl, &Connection::ioctl},
    {kMmap, &Connection::map},
    {kMapped, &Connection::mapped},
    {kCancel, &Connection::cancel},
    {kMemoryData, &Connection::memory_data},
    {kReadAttribute, &Connection::read_attribute},
    {kWriteFile, &Connection::write_file},
    {kGoodbye, &Connection::goodbye},
    {kInject, &Connection::administer},
    {kLedger, &Connection::administer},
    {kOwnership, &Connection::ownership},
};

Connection::Connection(ChannelServer& server, UniqueFd socket)
    : server_(server), machine_(server.machine()), socket_(std::move(socket)) {}

Result<void> Connection::start() {
  // The watch's function cannot run before watch_ is set: both happen under mutex_.
  const std::lock_guard lock(mutex_);
  watch_ = TRY(machine_.reactor().watch(
      socket_.get(), EPOLLIN | EPOLLRDHUP,
      [self = shared_from_this()](std::uint32_t events) { self->readable(events); }));
  return {};
}

void Connection::abandon() {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::readable(std::uint32_t) {
  { const std::lock_guard started(mutex_); }
  const Reading reading(this);
  static thread_local std::array<std::byte, kMaxMessageBytes> buffer;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (!read_one(buffer)) return;
  }
}

bool Connection::read_one(std::span<std::byte> buffer) {
  const Result<Message> message = receive_message(socket_.get(), buffer);
  if (!message && message.error() == Errno(EAGAIN)) return false;
  if (message) {
    const Result<void> handled = dispatch(message.value());
    if (handled) return true;
    reply_to(message.value(), -handled.error().number());
  }
  end();
  return false;
}

Result<void> Connection::dispatch(const Message& message) {
  const bool is_first = client_ == nullptr;
  if (is_first != (message.header.kind == kHello)) return Errno(EPROTO);
  if (!is_first && client_->gone()) return Errno(EPROTO);
  for (const Row& row : kRows) {
    if (row.kind == message.header.kind) return (this->*row.handler)(message);
  }
  return Errno(EPROTO);
}

void Connection::stop() {
  // A reader in the middle of end() still needs the server; one that is past it has removed the watch itself.
  machine_.reactor().unwatch(watch_);
  end();
}

void Connection::end() {
  std::map<std::uint64_t, std::weak_ptr<ChannelCall>> pending;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    pending.swap(pending_);
    for (const auto& request : memory_requests_) request->done = true;
    memory_requests_.clear();
    memory_moved_.notify_all();
  }
  abandon();
  // The client's thread is gone: what it waits for is interrupted, as a fatal signal does.
  for (const auto& [id, weak] : pending) {
    if (const std::shared_ptr<ChannelCall> call = weak.lock()) call->cancel();
  }
  if (is_process_connection_) machine_.clients().connection_closed(client_);
  server_.ended(shared_from_this());
  machine_.reactor().unwatch(watch_);
}

Result<void> Connection::hello(const Message& message) {
  if (message.header.command != kProtocolVersion) return Errno(EPROTO);
  is_process_connection_ = (message.header.flags & kProcessConnection) != 0;
  // A process connection is made once per image, which is the moment to notice an exec.
  Result<ClientRef> client = is_process_connection_ ? machine_.clients().resolve_fresh(message.sender)
                                                    : machine_.clients().resolve(message.sender);
  if (!client) {
    is_process_connection_ = false;
    return Errno(EPROTO);
  }
  client_ = std::move(client).value();
  server_.joined(shared_from_this(), client_);
  const HelloReply reply = server_.hello_reply();
  const bool denied = is_memory_denied(message.sender, message.header.address);
  reply_to(message, 0, std::as_bytes(std::span(&reply, 1)), denied ? kMemoryIsDenied : 0u);
  return {};
}

Result<void> Connection::open(const Message& message) {
  const int open_flags = static_cast<int>(message.header.flags);
  Node* node = machine_.node(message.text());
  if (node == nullptr) {
    reply_to(message, -ENOENT);
    return {};
  }
  const Result<FileRef> file = machine_.open(*node, caller_of(message), open_flags);
  if (!file) {
    reply_to(message, -file.error().number());
    return {};
  }
  const Result<UniqueFd> descriptor = machine_.files().make_descriptor(file.value());
  if (!descriptor) {
    file.value()->release();
    reply_to(message, -descriptor.error().number());
    return {};
  }
  if (open_flags & O_NONBLOCK) ::fcntl(descriptor.value().get(), F_SETFL, O_NONBLOCK);
  ReplyHeader header{};
  header.kind = kReply;
  header.call_id = message.header.call_id;
  header.fd_count = 1;
  header.fd_flags[0] = (open_flags & O_CLOEXEC) ? kFdCloseOnExec : 0u;
  const int fd = descriptor.value().get();
  if (!send_message(socket_.get(), header, {}, std::span(&fd, 1))) abandon();
  return {};
}

Result<std::shared_ptr<ChannelCall>> Connection::begin(const Message& message, CallKind kind) {
  const RequestHeader& header = message.header;
  const FileId id{header.file_id};
  if (!(header.flags & kFileIsExact) && server_.door().is_ambiguous(id)) {
    reply_to(message, -ESTALE, {}, kFileIsAmbiguous);
    return std::shared_ptr<ChannelCall>();
  }
  FileRef file = machine_.files().by_id(id);
  if (!file) {
    reply_to(message, -EBADF);
    return std::shared_ptr<ChannelCall>();
  }
  {
    // Only the reading thread adds, so there is still room below.
    const std::lock_guard lock(mutex_);
    if (pending_.size() >= kMaxPendingCalls || pending_.contains(header.call_id)) return Errno(EPROTO);
  }
  auto call = std::make_shared<ChannelCall>(machine_, kind, caller_of(message), std::move(file),
                                            shared_from_this(), header.call_id);
  const std::lock_guard lock(mutex_);
  pending_.emplace(header.call_id, call);
  return call;
}

Result<void> Connection::ioctl(const Message& message) {
  const std::shared_ptr<ChannelCall> call = TRY(begin(message, CallKind::kIoctl));
  if (!call) return {};
  call->command = message.header.command;
  call->argument = message.header.argument;
  call->file()->ioctl(call);
  return {};
}

Result<void> Connection::map(const Message& message) {
  const std::shared_ptr<ChannelCall> call = TRY(begin(message, CallKind::kMmap));
  if (!call) return {};
  Result<MmapTarget> target = machine_.map(*call, map_request_of(message.header));
  if (target) call->target = std::move(target).value();
  call->finish(target ? Outcome(0) : Outcome(target.error()));
  return {};
}

Result<void> Connection::mapped(const Message& message) {
  const FileRef file = machine_.files().by_id(FileId{message.header.file_id});
  if (file) file->mapped(caller_of(message), map_request_of(message.header), message.header.address);
  reply_to(message, file ? 0 : -EBADF);
  return {};
}

Result<void> Connection::write_file(const Message& message) {
  const std::shared_ptr<ChannelCall> call = TRY(begin(message, CallKind::kWrite));
  if (!call) return {};
  const Result<std::size_t> written = machine_.write(*call, message.payload);
  call->finish(written ? Outcome(static_cast<int>(written.value())) : Outcome(written.error()));
  return {};
}

Result<void> Connection::cancel(const Message& message) {
  std::shared_ptr<ChannelCall> call;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = pending_.find(message.header.call_id); found != pending_.end())
      call = found->second.lock();
  }
  // Absent: the answer is already on its way.
  if (call) call->cancel();
  return {};
}

Result<void> Connection::read_attribute(const Message& message) {
  const std::optional<TreeItem> item = server_.door().tree().find(message.text());
  const auto* sysfs = item ? std::get_if<SysfsItem>(&*item) : nullptr;
  if (sysfs == nullptr || sysfs->entry->is_directory()) {
    reply_to(message, item ? -EISDIR : -ENOENT);
    return {};
  }
  const Result<std::string> content = SysfsTree::read(*sysfs->entry);
  if (!content) {
    reply_to(message, -content.error().number());
  } else if (content.value().size() > kMaxMessageBytes - sizeof(ReplyHeader)) {
    reply_to(message, -EFBIG);
  } else {
    const std::string& text = content.value();
    reply_to(message, static_cast<std::int64_t>(text.size()), std::as_bytes(std::span(text)));
  }
  return {};
}

Result<void> Connection::goodbye(const Message& message) {
  client_->note_goodbye();
  machine_.sweep();
  machine_.ledger().note_exit(*client_);
  reply_to(message, 0);
  return {};
}

Result<void> Connection::administer(const Message& message) {
  const Administration& administration = server_.administration();
  if (!administration || client_->uid() != ::geteuid()) {
    reply_to(message, -EPERM);
    return {};
  }
  const auto kind = static_cast<MessageKind>(message.header.kind);
  std::string answer = administration(kind, message.text());
  answer.resize(std::min(answer.size(), kMaxMessageBytes - sizeof(ReplyHeader)));
  reply_to(message, static_cast<std::int64_t>(answer.size()), std::as_bytes(std::span(answer)));
  return {};
}

Result<void> Connection::ownership(const Message& message) {
  const auto dma_buf = machine_.dmabufs().of_identity(message.header.length, message.header.argument);
  reply_to(message, dma_buf ? 1 : 0);
  return {};
}

Result<void> Connection::memory_data(const Message& message) {
  const std::int64_t value = static_cast<std::int64_t>(message.header.argument);
  const std::lock_guard lock(mutex_);
  if (memory_requests_.empty()) return Errno(EPROTO);
  const std::shared_ptr<MemoryRequest> request = std::move(memory_requests_.front());
  memory_requests_.pop_front();
  const bool is_read = !request->into.empty();
  if (value > static_cast<std::int64_t>(request->requested_bytes) ||
      (is_read && value >= 0 && static_cast<std::size_t>(value) != message.payload.size())) {
    request->done = true;
    memory_moved_.notify_all();
    return Errno(EPROTO);
  }
  if (!request->abandoned && value >= 0) {
    if (is_read) std::memcpy(request->into.data(), message.payload.data(), message.payload.size());
    request->moved = static_cast<std::size_t>(value);
  }
  request->done = true;
  memory_moved_.notify_all();
  return {};
}

bool Connection::is_read_by_this_thread() const {
  return reading_connection == this;
}

Result<std::size_t> Connection::move_memory(MessageKind kind, std::uint64_t address,
                                            std::span<std::byte> into, std::span<const std::byte> from) {
  const auto request = std::make_shared<MemoryRequest>();
  request->into = into;
  request->requested_bytes = into.empty() ? from.size() : into.size();
  const auto deadline = std::chrono::steady_clock::now() + kMemoryTimeout;
  std::unique_lock lock(mutex_);
  if (ended_ || pending_.empty()) return Errno(EAGAIN);
  request->call_id = pending_.begin()->first;
  ReplyHeader header{};
  header.kind = kind;
  header.call_id = request->call_id;
  header.value = static_cast<std::int64_t>(request->requested_bytes);
  header.extra = address;
  header.payload_bytes = static_cast<std::uint32_t>(from.size());
  if (!send_message(socket_.get(), header, from, {})) {
    abandon();
    return Errno(EFAULT);
  }
  memory_requests_.push_back(request);
  const bool must_read = is_read_by_this_thread();
  std::vector<std::byte> buffer(must_read ? kMaxMessageBytes : 0);
  while (!request->done && std::chrono::steady_clock::now() < deadline) {
    if (!must_read) {
      memory_moved_.wait_until(lock, deadline);
      continue;
    }
    lock.unlock();
    pollfd ready{socket_.get(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    (void)read_one(buffer);
    lock.lock();
  }
  if (!request->done) {
    request->abandoned = true;
    abandon();
  }
  return request->moved;
}

void Connection::answer(ChannelCall& call, int value) {
  ReplyHeader header{};
  header.kind = kReply;
  header.call_id = call.call_id();
  header.value = value;
  std::array<int, kMaxHandedFds> fds{};
  const auto attach = [&](int fd, std::uint32_t argument_offset, bool close_on_exec) {
    if (header.fd_count == kMaxHandedFds) {
      std::fprintf(stderr, "understudy: %s hands more than %d descriptors\n",
                   std::string(call.name()).c_str(), static_cast<int>(kMaxHandedFds));
      std::abort();
    }
    fds[header.fd_count] = fd;
    header.fd_argument_offset[header.fd_count] = argument_offset;
    header.fd_flags[header.fd_count] = close_on_exec ? kFdCloseOnExec : 0u;
    ++header.fd_count;
  };
  if (value >= 0) {
    for (const HandedFd& handed : call.handed_fds())
      attach(handed.fd.get(), handed.argument_offset, handed.close_on_exec);
    if (call.target.fd) {
      attach(call.target.fd.get(), 0, true);
      header.extra = call.target.offset_bytes;
      if (call.target.is_doorbell) header.reply_flags |= kMappingIsDoorbell;
      if (call.target.report_address) header.reply_flags |= kReportAddress;
    }
  }
  const std::lock_guard lock(mutex_);
  pending_.erase(call.call_id());
  if (ended_) return;
  if (!send_message(socket_.get(), header, {}, std::span(fds).first(header.fd_count))) abandon();
}

void Connection::reply_to(const Message& message, std::int64_t value, std::span<const std::byte> payload,
                          std::uint32_t reply_flags) {
  ReplyHeader header{};
  header.kind = kReply;
  header.call_id = message.header.call_id;
  header.value = value;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.reply_flags = reply_flags;
  if (!send_message(socket_.get(), header, payload, {})) abandon();
}

Caller Connection::caller_of(const Message& message) {
  // A forked or vforked child that speaks through its parent's connection.
  if (message.sender != client_->pid()) {
    const Result<ClientRef> sender = machine_.clients().resolve(message.sender);
    if (!sender) return Caller{client_, message.sender};
    if (!sender.value()->has_shim()) server_.joined(shared_from_this(), sender.value());
    return Caller{sender.value(), message.sender};
  }
  const pid_t tid = message.header.tid;
  if (tid != checked_tid_) {
    if (!is_thread_of(tid, client_->pid())) return Caller{client_, client_->pid()};
    checked_tid_ = tid;
  }
  return Caller{client_, tid};
}

}  // namespace understudy::door
