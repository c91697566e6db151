// What a descriptor of the program is, by the kernel's word and not by any bookkeeping of ours: so inherited,
// duplicated and received ones are known, too.
//
// Owner: none. Units: none. Errors: a descriptor that is the machine's while the server is gone carries
// ENODEV. Thread-safety: all functions from any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "sim/door/shim/node.h"

namespace understudy::shim {

enum class DescriptorKind : unsigned char {
  kForeign,
  kFile,    // an open file of the machine: a node, a sync_file, ...
  kMemory,  // memory of the kind that dma-bufs are (see dmabuf.h); only once the machine has been met
};

struct Descriptor {
  DescriptorKind kind = DescriptorKind::kForeign;
  int error = 0;
  std::uint64_t file_id = 0;
  DeviceNumber number;  // kFile: of its node; major 0 for files without one
  struct stat info;
};

Descriptor describe(int fd);

// A socket of some machine's, without asking ours: the number its name tells.
bool is_machine_socket(int fd, DeviceNumber* number);

}  // namespace understudy::shim
