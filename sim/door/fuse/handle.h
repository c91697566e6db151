// Handle: what an open file of a fuse or cuse session is to us: a node's file, an attribute or a directory.
//
// Owner: the session's HandleTable, from the OPEN reply to RELEASE (fi->fh names it); a request in progress
// holds a reference beyond that, since RELEASE may come as soon as it is answered. Units: bytes. Errors:
// every request is answered exactly once, with the errno the kernel's own file would give. Thread-safety: all
// methods from any thread. Mirrors: struct file_operations.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "sim/core/call.h"
#include "sim/door/fuse/fuse_api.h"

namespace understudy::door {

struct IoctlRequest {
  std::uint32_t command = 0;
  std::uint64_t argument = 0;
  std::span<const std::byte> in;
  std::size_t out_bytes = 0;
};

class Handle {
 public:
  virtual ~Handle() = default;
  virtual void ioctl(fuse_req_t request, const IoctlRequest&) { ::fuse_reply_err(request, ENOTTY); }
  virtual void read(fuse_req_t request, std::size_t size, off_t offset, bool nonblocking) = 0;
  virtual void write(fuse_req_t request, std::span<const std::byte> bytes, off_t offset) = 0;
  // Takes `waiter` (may be null). As fs/select.c treats a file without poll.
  virtual void poll(fuse_req_t request, fuse_pollhandle* waiter);
  virtual void list(fuse_req_t request, std::size_t, off_t) { ::fuse_reply_err(request, ENOTDIR); }
  // The last descriptor is gone.
  virtual void closed() {}
};

class HandleTable {
 public:
  std::uint64_t add(std::shared_ptr<Handle> handle);
  std::shared_ptr<Handle> find(std::uint64_t number) const;
  std::shared_ptr<Handle> take(std::uint64_t number);

 private:
  mutable std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<Handle>> handles_;  // guarded by mutex_
};

// The process behind a request; a failed one has been answered.
Result<Caller> caller_of(Machine& machine, fuse_req_t request, bool look_for_exec);

}  // namespace understudy::door
