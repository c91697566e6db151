// Nodes as stat(2) shows them: their placeholders in the tree are regular files (see channel_protocol.h),
// which the program must see as the character devices they stand for.
//
// Owner: none, functions of their arguments. Units: none. Errors: none. Thread-safety: pure. Mirrors:
// drivers/base/devtmpfs.c, fs/stat.c.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "sim/door/shim/root.h"

namespace understudy::shim {

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

// A DRM or accel node, which share drm_file.c.
bool is_drm(DeviceNumber number);

// Is this a node's placeholder, or a file opened through it? Its device number then.
bool is_node(const struct stat& info, DeviceNumber* number);
bool is_node(const struct statx& info, DeviceNumber* number);
// An attribute whose content only the server knows (socket door).
bool is_dynamic_attribute(const struct stat& info);

// The copy of such an attribute's content that a program reads in its place keeps the attribute's inode
// number in its own modification time.
timespec stamp_of_copy(ino_t attribute);

// If it is a node, or a copy of an attribute, makes it look like one.
void show_node(struct stat* info);
void show_node(struct statx* info);

// A node's path on the machine, by the kernel's naming, and where that is on disk.
class NodePath {
 public:
  explicit NodePath(DeviceNumber number);
  const char* on_machine() const { return text_ + tree_bytes_; }
  const char* on_disk() const { return text_; }

 private:
  const std::size_t tree_bytes_;
  char text_[kMaxTreeBytes + 40];
};

}  // namespace understudy::shim
