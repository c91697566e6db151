// KernelFlavour: which guest kernel the driver comes from: struct sizes and what differs in behaviour.
//
// Owner: constant tables. Units: none. Errors: find_kernel_flavour returns null. Thread-safety: immutable.
// Mirrors: include/uapi/drm/virtgpu_drm.h of Linux 6.1, 6.12 and 7.x, and of the userptr series.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sim/core/ioctl_table.h"

namespace understudy::virtio_gpu {

enum class UserptrKind : std::uint8_t {
  kNone,
  // v3 to v5: a new object and a new pin for each request; pages are let go before the host is told.
  kPinned,
  // Later: page-aligned requests only, counted against RLIMIT_MEMLOCK, let go after the host has answered.
  kAccounted,
  // The first versions and ROCm's own kernels: a request inside an existing object gives that object again.
  kDeduplicated,
};

struct KernelFlavour {
  std::string_view name;
  std::span<const IoctlRow> (*ioctls)();
  // EXECBUFFER looks at handles and commands before it waits (since 6.6), and knows syncobjs.
  bool has_syncobjs;
  // GETPARAM and CONTEXT_INIT know EXPLICIT_DEBUG_NAME; CONTEXT_INIT keeps 64 bits of its values.
  bool has_debug_name;
  std::uint32_t blob_flags;
  // RESOURCE_CREATE_BLOB can put its MAP_BLOB off to the first mmap.
  bool has_blob_hints;
  // A dma-buf of another device becomes a guest blob.
  bool imports_foreign_buffers;
  UserptrKind userptr;
  // Flag bit of the deduplicated kind (rocm-2026 has both kinds); 0: USE_USERPTR itself.
  std::uint32_t svm_flag;
};

// "6.1", "6.12", "upstream", "userptr-v5", "userptr-late", "reference", "rocm-2026".
std::span<const KernelFlavour> kernel_flavours();
const KernelFlavour* find_kernel_flavour(std::string_view name);

}  // namespace understudy::virtio_gpu
