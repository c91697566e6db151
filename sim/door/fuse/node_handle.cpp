#include "sim/door/fuse/node_handle.h"

#include <poll.h>

#include "sim/core/machine.h"
#include "sim/door/channel_protocol.h"
#include "sim/door/fuse/fuse_call.h"

namespace understudy::door {

// Readers and pollers that wait for the file to have something to read.
struct NodeHandle::Waiters : std::enable_shared_from_this<NodeHandle::Waiters> {
  struct Reader {
    fuse_req_t request;
    std::size_t size;
    Interrupts::Key interrupts_key;
  };

  Waiters(SessionData& its_session, FileRef its_file) : session(its_session), file(std::move(its_file)) {}

  void wait(fuse_req_t request, std::size_t size) {
    const std::lock_guard lock(mutex);
    const std::uint64_t number = next_number++;
    const Interrupts::Key key = session.interrupts.watch(request, [weak = weak_from_this(), number] {
      if (const auto waiters = weak.lock()) waiters->interrupt(number);
    });
    readers.emplace(number, Reader{request, size, key});
  }

  void interrupt(std::uint64_t number) {
    const std::lock_guard lock(mutex);
    const auto found = readers.find(number);
    if (found == readers.end()) return;
    session.interrupts.forget(found->second.interrupts_key);
    ::fuse_reply_err(found->second.request, EINTR);
    readers.erase(found);
  }

  void set_poller(fuse_pollhandle* handle) {
    const std::lock_guard lock(mutex);
    if (poller != nullptr) ::fuse_pollhandle_destroy(poller);
    poller = handle;
  }

  void became_readable() {
    const std::lock_guard lock(mutex);
    while (!readers.empty()) {
      const Reader reader = readers.begin()->second;
      const Result<std::vector<std::byte>> message = file->take_read(reader.size);
      if (!message && message.error() == Errno(EAGAIN)) break;
      readers.erase(readers.begin());
      session.interrupts.forget(reader.interrupts_key);
      answer(reader.request, message);
    }
    if (poller != nullptr) {
      ::fuse_lowlevel_notify_poll(poller);
      ::fuse_pollhandle_destroy(std::exchange(poller, nullptr));
    }
  }

  static void answer(fuse_req_t request, const Result<std::vector<std::byte>>& message) {
    if (message) {
      ::fuse_reply_buf(request, reinterpret_cast<const char*>(message.value().data()),
                       message.value().size());
    } else {
      ::fuse_reply_err(request, message.error().number());
    }
  }

  SessionData& session;
  const FileRef file;
  std::mutex mutex;
  std::uint64_t next_number = 1;
  std::map<std::uint64_t, Reader> readers;  // guarded by mutex, like the rest
  fuse_pollhandle* poller = nullptr;
};

NodeHandle::NodeHandle(SessionData& session, FileRef file)
    : session_(session), file_(std::move(file)), waiters_(std::make_shared<Waiters>(session, file_)) {
  file_->set_read_notify([weak = std::weak_ptr(waiters_)] {
    if (const auto waiters = weak.lock()) waiters->became_readable();
  });
}

NodeHandle::~NodeHandle() {
  waiters_->set_poller(nullptr);
}

void NodeHandle::ioctl(fuse_req_t request, const IoctlRequest& what) {
  if (what.command == static_cast<std::uint32_t>(UNDERSTUDY_IOC_FILE_ID)) {
    const std::uint64_t id = file_->id().value;
    ::fuse_reply_ioctl(request, 0, &id, sizeof id);
    return;
  }
  const Result<Caller> caller = caller_of(session_.machine, request, false);
  if (!caller) return;
  const auto call = std::make_shared<FuseCall>(session_, CallKind::kIoctl, caller.value(), file_, request);
  call->command = what.command;
  call->argument = what.argument;
  call->set_buffers(what.in, what.out_bytes);
  call->watch_interrupts();
  file_->ioctl(call);
}

void NodeHandle::read(fuse_req_t request, std::size_t size, off_t, bool nonblocking) {
  if (!file_->has_read()) {
    ::fuse_reply_err(request, EINVAL);
    return;
  }
  const Result<std::vector<std::byte>> message = file_->take_read(size);
  if (message || nonblocking || message.error() != Errno(EAGAIN)) {
    Waiters::answer(request, message);
    return;
  }
  waiters_->wait(request, size);
  // A message may have come between the look and the wait.
  if (file_->readable()) waiters_->became_readable();
}

void NodeHandle::write(fuse_req_t request, std::span<const std::byte> bytes, off_t) {
  const Result<Caller> caller = caller_of(session_.machine, request, false);
  if (!caller) return;
  const auto call = std::make_shared<FuseCall>(session_, CallKind::kWrite, caller.value(), file_, request);
  const Result<std::size_t> written = session_.machine.write(*call, bytes);
  call->finish(written ? Outcome(static_cast<int>(written.value())) : Outcome(written.error()));
}

void NodeHandle::poll(fuse_req_t request, fuse_pollhandle* waiter) {
  if (!file_->has_read()) {
    Handle::poll(request, waiter);
    return;
  }
  if (waiter != nullptr) waiters_->set_poller(waiter);
  ::fuse_reply_poll(request, file_->readable() ? POLLIN | POLLRDNORM : 0);
}

void NodeHandle::closed() {
  session_.machine.files().remove(file_->id());
}

}  // namespace understudy::door
