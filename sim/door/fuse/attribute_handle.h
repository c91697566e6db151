// AttributeHandle and DirectoryHandle: open sysfs attributes and open directories of the fuse mount.
//
// Owner: the session (see Handle). Units: bytes. Errors: those of the attribute's show and store functions.
// Thread-safety: all methods from any thread. Mirrors: fs/sysfs/file.c and fs/kernfs/dir.c.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "sim/door/fuse/handle.h"
#include "sim/door/tree.h"

namespace understudy::door {

class AttributeHandle : public Handle {
 public:
  explicit AttributeHandle(SysfsTree::EntryRef entry) : entry_(std::move(entry)) {}
  // The content is made when read from the start, as kernfs does, so one descriptor can be read again.
  void read(fuse_req_t request, std::size_t size, off_t offset, bool nonblocking) override;
  void write(fuse_req_t request, std::span<const std::byte> bytes, off_t offset) override;

 private:
  const SysfsTree::EntryRef entry_;
  std::mutex mutex_;
  std::string content_;  // guarded by mutex_
};

class DirectoryHandle : public Handle {
 public:
  struct Entry {
    std::string name;
    struct stat attributes;
  };
  explicit DirectoryHandle(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  void read(fuse_req_t request, std::size_t, off_t, bool) override { ::fuse_reply_err(request, EISDIR); }
  void write(fuse_req_t request, std::span<const std::byte>, off_t) override {
    ::fuse_reply_err(request, EISDIR);
  }
  void list(fuse_req_t request, std::size_t size, off_t offset) override;

 private:
  const std::vector<Entry> entries_;
};

}  // namespace understudy::door
