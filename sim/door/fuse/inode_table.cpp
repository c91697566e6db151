#include "sim/door/fuse/inode_table.h"

#include <sys/sysmacros.h>

#include "sim/door/channel_protocol.h"

namespace understudy::door {
namespace {

// Ranges of inode numbers: small ones for the root and dev/, tagged ones for sys/ and proc/.
constexpr fuse_ino_t kFirstDeviceDirectory = 16;
constexpr fuse_ino_t kSysfsBit = fuse_ino_t{1} << 40;
constexpr fuse_ino_t kProcBit = fuse_ino_t{1} << 41;
// What sysfs says of every attribute.
constexpr off_t kAttributeSize = 4096;

}  // namespace

InodeTable::InodeTable() {
  // The kernel holds the root without ever looking it up.
  inodes_[FUSE_ROOT_ID] = Inode{RootDirectory{}, 1, 0};
}

fuse_ino_t InodeTable::number_of(FileId id) {
  return id.value | kOpenFileInodeBit;
}

fuse_ino_t InodeTable::stable_number(const TreeItem& item) {
  if (const auto* sysfs = std::get_if<SysfsItem>(&item))
    return sysfs->entry->inode | (sysfs->is_proc ? kProcBit : kSysfsBit);
  if (const auto* devices = std::get_if<DeviceDirectory>(&item)) {
    const std::lock_guard lock(mutex_);
    return device_directories_.try_emplace(devices->path, kFirstDeviceDirectory + device_directories_.size())
        .first->second;
  }
  return FUSE_ROOT_ID;
}

struct stat InodeTable::attributes_of(const TreeItem& item, fuse_ino_t number) {
  struct stat attributes {};
  attributes.st_ino = number;
  attributes.st_nlink = 1;
  attributes.st_blksize = kAttributeSize;
  if (const auto* node = std::get_if<NodeRef>(&item)) {
    // A regular file: opening a fuse inode of type S_IFCHR would open the host's device of that number.
    attributes.st_mode = S_IFREG | (*node)->permissions();
    const Stamp stamp = node_stamp(major((*node)->device_number()), minor((*node)->device_number()));
    attributes.st_mtim = {stamp.seconds, static_cast<long>(stamp.nanoseconds)};
    return attributes;
  }
  if (is_directory(item)) {
    attributes.st_mode = S_IFDIR | 0755;
    attributes.st_nlink = 2;
    return attributes;
  }
  const SysfsTree::Entry& entry = *std::get<SysfsItem>(item).entry;
  if (const auto* link = std::get_if<SysfsTree::Link>(&entry.what)) {
    attributes.st_mode = S_IFLNK | 0777;
    attributes.st_size = static_cast<off_t>(link->target.size());
    return attributes;
  }
  attributes.st_mode = S_IFREG | std::get<SysfsTree::Attribute>(entry.what).mode;
  attributes.st_size = kAttributeSize;
  return attributes;
}

InodeTable::Known InodeTable::remember(const TreeItem& item) {
  const fuse_ino_t number =
      std::holds_alternative<NodeRef>(item) ? number_of(FileTable::random_id()) : stable_number(item);
  const std::lock_guard lock(mutex_);
  Inode& inode = inodes_[number];
  inode.item = item;
  ++inode.lookups;
  return Known{number, attributes_of(item, number)};
}

void InodeTable::forget(fuse_ino_t number, std::uint64_t lookups) {
  const std::lock_guard lock(mutex_);
  const auto found = inodes_.find(number);
  if (found == inodes_.end()) return;
  if (found->second.lookups > lookups) {
    found->second.lookups -= lookups;
    return;
  }
  if (found->second.opens > 1) --ambiguous_count_;
  inodes_.erase(found);
}

std::optional<TreeItem> InodeTable::find(fuse_ino_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = inodes_.find(number);
  if (found == inodes_.end()) return std::nullopt;
  return found->second.item;
}

struct stat InodeTable::describe(const TreeItem& item) {
  if (!std::holds_alternative<NodeRef>(item)) return attributes_of(item, stable_number(item));
  struct stat attributes = attributes_of(item, kOpenFileInodeBit);
  // A directory entry may show the type that the inode itself may not have.
  attributes.st_mode = (attributes.st_mode & ~S_IFMT) | S_IFCHR;
  return attributes;
}

std::optional<FileId> InodeTable::first_open(fuse_ino_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = inodes_.find(number);
  if (found == inodes_.end()) return std::nullopt;
  ++found->second.opens;
  if (found->second.opens == 1) return FileId{number & ~kOpenFileInodeBit};
  if (found->second.opens == 2) ++ambiguous_count_;
  return std::nullopt;
}

bool InodeTable::is_ambiguous(FileId id) const {
  if (ambiguous_count_ == 0) return false;
  const std::lock_guard lock(mutex_);
  const auto found = inodes_.find(number_of(id));
  return found != inodes_.end() && found->second.opens > 1;
}

}  // namespace understudy::door
