// InodeTable: what the inode numbers that the kernel holds stand for.
//
// Directories, attributes and links have one number for their life. A node gets a new one at every look-up,
// so that each open(2) ends in an inode of its own, whose number names the open file (see
// channel_protocol.h). Owner: FuseDoor. Units: none. Errors: find of a number the kernel does not hold
// returns nothing. Thread-safety: all methods from any thread. Mirrors: fs/fuse/inode.c: fuse_iget and
// fuse_forget.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "sim/core/file.h"
#include "sim/door/fuse/fuse_api.h"
#include "sim/door/tree.h"

namespace understudy::door {

class InodeTable {
 public:
  InodeTable();

  struct Known {
    fuse_ino_t number = 0;
    struct stat attributes {};
  };
  // Counts one look-up by the kernel.
  Known remember(const TreeItem& item);
  void forget(fuse_ino_t number, std::uint64_t lookups);
  std::optional<TreeItem> find(fuse_ino_t number) const;
  // Number and attributes of an item that the kernel does not look up (directory listings).
  struct stat describe(const TreeItem& item);
  static struct stat attributes_of(const TreeItem& item, fuse_ino_t number);

  // A node's inode was opened: the id its file should have, or nothing when the number already names another
  // open file.
  std::optional<FileId> first_open(fuse_ino_t number);
  bool is_ambiguous(FileId id) const;

  static fuse_ino_t number_of(FileId id);

 private:
  struct Inode {
    TreeItem item;
    std::uint64_t lookups = 0;
    unsigned opens = 0;
  };
  fuse_ino_t stable_number(const TreeItem& item);  // takes the lock

  mutable std::mutex mutex_;
  std::unordered_map<fuse_ino_t, Inode> inodes_;          // guarded by mutex_
  std::map<std::string, fuse_ino_t> device_directories_;  // guarded by mutex_
  std::atomic<std::size_t> ambiguous_count_{0};
};

}  // namespace understudy::door
