#include "sim/door/shim/node.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <atomic>

#include "sim/door/channel_protocol.h"
#include "sim/door/shim/raw.h"

namespace understudy::shim {
namespace {

constexpr unsigned kDrmMajor = 226;
constexpr unsigned kAccelMajor = 261;
constexpr unsigned kFirstRenderMinor = 128;
constexpr std::uint32_t kFirstNodeInode = 256;

constinit std::atomic<dev_t> known_tree_device{0};

// Without asking the server, which may be gone; 0 when there is no tree.
dev_t tree_device() {
  dev_t device = known_tree_device.load(std::memory_order_relaxed);
  struct statx info;
  if (device != 0 || raw(SYS_statx, AT_FDCWD, root::tree().data(), AT_STATX_DONT_SYNC, 0, &info) != 0)
    return device;
  device = makedev(info.stx_dev_major, info.stx_dev_minor);
  known_tree_device.store(device, std::memory_order_relaxed);
  return device;
}

// A file elsewhere with a node's time stamp stays what it is.
bool is_on_tree(dev_t device) {
  return device == tree_device();
}

bool is_node(mode_t mode, door::Stamp stamp, dev_t device, DeviceNumber* number) {
  if (!S_ISREG(mode) || !door::is_node_stamp(stamp) || !is_on_tree(device)) return false;
  *number = {door::major_of(stamp), door::minor_of(stamp)};
  return true;
}

// One number for a node, though each open file behind it has an inode of its own.
ino_t inode_of(DeviceNumber number) {
  return kFirstNodeInode + (static_cast<ino_t>(number.major) << 20 | number.minor);
}

constexpr long kCopyNanoseconds = 725'999'998;

// Shows the attribute's identity on its copy.
void show_attribute(struct stat* info) {
  if (!S_ISREG(info->st_mode) || info->st_mtim.tv_nsec != kCopyNanoseconds) return;
  info->st_dev = tree_device();
  info->st_ino = static_cast<ino_t>(info->st_mtim.tv_sec);
  info->st_mode = S_IFREG | S_IRUSR | S_IRGRP | S_IROTH;
  info->st_nlink = 1;
  info->st_mtim = {door::kDynamicStamp.seconds, static_cast<long>(door::kDynamicStamp.nanoseconds)};
}

mode_t as_device(mode_t mode) {
  return (mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
}

}  // namespace

bool is_drm(DeviceNumber number) {
  return number.major == kDrmMajor || number.major == kAccelMajor;
}

bool is_node(const struct stat& info, DeviceNumber* number) {
  return is_node(info.st_mode, {info.st_mtim.tv_sec, static_cast<std::uint32_t>(info.st_mtim.tv_nsec)},
                 info.st_dev, number);
}

bool is_node(const struct statx& info, DeviceNumber* number) {
  return is_node(info.stx_mode, {info.stx_mtime.tv_sec, info.stx_mtime.tv_nsec},
                 makedev(info.stx_dev_major, info.stx_dev_minor), number);
}

bool is_dynamic_attribute(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_mtim.tv_sec == door::kDynamicStamp.seconds &&
         info.st_mtim.tv_nsec == door::kDynamicStamp.nanoseconds && is_on_tree(info.st_dev);
}

timespec stamp_of_copy(ino_t attribute) {
  return {static_cast<time_t>(attribute), kCopyNanoseconds};
}

void show_node(struct stat* info) {
  DeviceNumber number;
  if (!is_node(*info, &number)) return show_attribute(info);
  info->st_mode = as_device(info->st_mode);
  info->st_rdev = makedev(number.major, number.minor);
  info->st_ino = inode_of(number);
  info->st_size = 0;
  info->st_blocks = 0;
}

void show_node(struct statx* info) {
  DeviceNumber number;
  if (!is_node(*info, &number)) return;
  info->stx_mode = static_cast<std::uint16_t>(as_device(info->stx_mode));
  info->stx_rdev_major = number.major;
  info->stx_rdev_minor = number.minor;
  info->stx_ino = inode_of(number);
  info->stx_size = 0;
  info->stx_blocks = 0;
}

NodePath::NodePath(DeviceNumber number) : tree_bytes_(root::tree().size()) {
  ::memcpy(text_, root::tree().data(), tree_bytes_);
  char* const name = text_ + tree_bytes_;
  const std::size_t bytes = sizeof text_ - tree_bytes_;
  if (number.major == kDrmMajor) {
    const char* const format = number.minor < kFirstRenderMinor ? "/dev/dri/card%u" : "/dev/dri/renderD%u";
    ::snprintf(name, bytes, format, number.minor);
  } else if (number.major == kAccelMajor) {
    ::snprintf(name, bytes, "/dev/accel/accel%u", number.minor);
  } else {
    ::strcpy(name, "/dev/kfd");
  }
}

}  // namespace understudy::shim
