// NodeHandle: an open device file of a fuse or cuse session.
//
// Owner: the session (see Handle); notifications hold weak references. Units: bytes. Errors: the driver's.
// Thread-safety: all methods from any thread; mutex_ guards the waiters and is not held while a driver runs.
// Mirrors: fs/fuse/file.c on the other side of the connection.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "sim/core/file.h"
#include "sim/door/fuse/handle.h"
#include "sim/door/fuse/interrupts.h"

namespace understudy::door {

class NodeHandle : public Handle {
 public:
  // `file` is registered in the machine's FileTable, and removed from it by closed().
  NodeHandle(SessionData& session, FileRef file);
  ~NodeHandle() override;

  const FileRef& file() const { return file_; }
  void ioctl(fuse_req_t request, const IoctlRequest& what) override;
  void read(fuse_req_t request, std::size_t size, off_t offset, bool nonblocking) override;
  void write(fuse_req_t request, std::span<const std::byte> bytes, off_t offset) override;
  void poll(fuse_req_t request, fuse_pollhandle* waiter) override;
  void closed() override;

 private:
  // Outlives the handle in the file's notify function.
  struct Waiters;
  SessionData& session_;
  const FileRef file_;
  const std::shared_ptr<Waiters> waiters_;
};

}  // namespace understudy::door
