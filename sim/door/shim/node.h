// Nodes as stat(2) shows them: their placeholders in the tree are regular files (see channel_protocol.h),
// which the program must see as the character devices they stand for.
//
// Owner: none, functions of their arguments. Units: none. Errors: none. Thread-safety: pure, but for
// stat_of_node, which looks at the tree. Mirrors: drivers/base/devtmpfs.c, fs/stat.c.
#pragma once

#include <sys/stat.h>

#include <cstdint>

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

// If it is a node, makes it look like one.
void show_node(struct stat* info);
void show_node(struct statx* info);
// What stat(2) of the node says, for descriptors that are something else underneath.
bool stat_of_node(DeviceNumber number, struct stat* info);

inline constexpr unsigned kMaxNodeNameBytes = 32;
// Its path below /dev, by the kernel's naming.
void name_of_node(DeviceNumber number, char (&name)[kMaxNodeNameBytes]);

}  // namespace understudy::shim
