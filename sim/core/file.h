// File: one open file description of a node (dup, fork and SCM_RIGHTS share it), and Node: a /dev entry.
//
// Owner: FileTable keeps a File from open to release (the last descriptor of it is closed anywhere); calls in
// flight hold references beyond that. Nodes live as long as the machine.
// Units: offsets and lengths in bytes. Errors: the real driver's errno. Thread-safety: a File's methods are
// called from many threads at once; drivers lock. Mirrors: struct file and struct file_operations.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/client.h"
#include "sim/core/fd.h"
#include "sim/core/result.h"

namespace understudy {

class Machine;
class Reactor;

// Unguessable name of a File on the wire between shim and server.
struct FileId {
  std::uint64_t value = 0;
  auto operator<=>(const FileId&) const = default;
};

struct MmapRequest {
  std::uint64_t address = 0;  // hint or MAP_FIXED target, for the record
  std::uint64_t length_bytes = 0;
  int protection = 0;  // PROT_*
  int flags = 0;       // MAP_*
  std::uint64_t offset_bytes = 0;
};

// What the shim maps in place of the device: the pages at `offset_bytes` of `fd`. The mapping's life is that
// of the open file description, so pass one made for this mapping (Buffer::open_for_map).
struct MmapTarget {
  UniqueFd fd;
  std::uint64_t offset_bytes = 0;
  // Doorbell pages: the shim registers them for write notification where the host allows it.
  bool is_doorbell = false;
  // The driver wants to know where the client mapped it: File::mapped() follows.
  bool report_address = false;
};

class File : public std::enable_shared_from_this<File> {
 public:
  virtual ~File() = default;

  // For messages: "kfd", "dri/renderD128", "sync_file".
  virtual std::string label() const = 0;
  // Device number shown by stat; 0 for what is not a character device (sync_file, SMI events, ...).
  virtual dev_t device_number() const { return 0; }

  virtual void ioctl(const CallRef& call) = 0;
  virtual Result<MmapTarget> mmap(Call& call, const MmapRequest& request);  // ENODEV
  // The client mapped a target that asked for it; `request` is the one mmap() saw.
  virtual void mapped(const Caller& /*caller*/, const MmapRequest& /*request*/, std::uint64_t /*address*/) {}
  // write(2); the default is EINVAL as for DRM files. The caller is empty when the bytes came through a
  // socket-backed file, where the kernel does not say who wrote.
  virtual Result<std::size_t> write(const Caller& caller, std::span<const std::byte> bytes);
  // Does the driver have read(2) and poll(2)? Without, read fails with EINVAL and poll reports the file as
  // ready, as fs/read_write.c and fs/select.c do.
  virtual bool has_read() const { return false; }
  // Runs once when the last descriptor is gone and nobody holds the file any more; no locks held.
  virtual void release() {}
  // For drivers that keep a file alive beyond its descriptors, as fget() does. Every hold is let go once,
  // without locks.
  void hold() { holds_.fetch_add(1); }
  void let_go() {
    if (holds_.fetch_sub(1) == 1) release();
  }

  FileId id() const { return id_; }

  // Data for read(2)/poll(2) (drm_event, SMI text): queued here, fetched or pushed by whoever carries the
  // file.
  void queue_read(std::vector<std::byte> message);
  bool readable() const;
  // One message, at most `max_bytes` (a longer one stays: returns EAGAIN when empty, EINVAL when it does not
  // fit).
  Result<std::vector<std::byte>> take_read(std::size_t max_bytes);
  void set_read_notify(std::function<void()> notify);

 private:
  friend class FileTable;
  FileId id_;
  std::atomic<unsigned> holds_{1};  // the descriptors count as one
  mutable std::mutex read_mutex_;
  std::deque<std::vector<std::byte>> read_queue_;  // guarded by read_mutex_
  std::function<void()> read_notify_;              // guarded by read_mutex_
};

using FileRef = std::shared_ptr<File>;

class Node {
 public:
  virtual ~Node() = default;
  // Below /dev: "kfd", "dri/renderD128", "accel/accel0".
  virtual std::string path() const = 0;
  virtual dev_t device_number() const = 0;
  virtual unsigned permissions() const { return 0666; }
  virtual Result<FileRef> open(const Caller& caller, int open_flags) = 0;
};

// All open files, by wire id and by the identity (st_dev, st_ino) their descriptors have in clients.
class FileTable {
 public:
  FileTable(Reactor& reactor, std::string socket_prefix)
      : reactor_(reactor), socket_prefix_(std::move(socket_prefix)) {}
  ~FileTable();

  // Registers a file: gives it its id.
  FileId add(const FileRef& file);
  // The same under an id that the door has drawn before (see random_id). EEXIST.
  Result<void> add(const FileRef& file, FileId id);
  // Bit 63 is clear: the fuse door marks the inode numbers of open files with it.
  static FileId random_id();
  void bind_identity(FileId id, dev_t device, ino_t inode);
  FileRef by_id(FileId id) const;
  // The file a client's descriptor refers to. EBADF: not open; ENOENT: open, but not one of ours.
  Result<FileRef> by_client_fd(const Client& client, int fd) const;
  // The last descriptor is gone: forgets the file and runs release().
  void remove(FileId id);
  std::vector<FileRef> all() const;

  // Registers `file` and makes the client's end of a socket pair that *is* its open file description: kernel
  // close semantics, poll and read (queue_read messages are sent through it). Its peer name is
  // "\0<socket_prefix>/<id>/<device number>", which is how the shim knows it.
  Result<UniqueFd> make_descriptor(const FileRef& file);

 private:
  struct Entry {
    FileRef file;
    UniqueFd server_end;  // socket-backed files only
    std::uint64_t watch = 0;
    std::pair<dev_t, ino_t> identity{0, 0};
  };
  void flush_reads(FileId id);
  void socket_ready(FileId id, std::uint32_t events);

  Reactor& reactor_;
  const std::string socket_prefix_;
  mutable std::mutex mutex_;
  std::map<FileId, Entry> entries_;
  std::map<std::pair<dev_t, ino_t>, FileId> by_identity_;
};

}  // namespace understudy
