// RocmBackend: what all ROCm contexts of a virtual machine share: the host library, the address ranges handed
// to guests, what is known per node.
//
// Owner: RocmType, from the renderer's start on. Units: bytes. Errors: open: the errno of a host without KFD.
// Thread-safety: the renderer's single caller. Mirrors: virglrenderer src/rocm: vhsakmt_backend, hsakmt_vm.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "sim/virtio_gpu/rocm/protocol.h"
#include "sim/virtio_gpu/rocm/thunk/host_thunk.h"
#include "sim/virtio_gpu/rocm/va_arena.h"

namespace understudy::virtio_gpu {

class RocmBackend {
 public:
  static Result<std::unique_ptr<RocmBackend>> open(Machine& host, const VhsakmtLayout& layout, bool strict);

  const VhsakmtLayout& layout() const { return layout_; }
  // Say aloud what the published host swallows.
  bool strict() const { return strict_; }
  HostThunk& thunk() { return *thunk_; }

  // The addresses of one context: its own slice, or everybody's. Nothing when all slices are taken.
  std::shared_ptr<VaArena> take_arena();
  // Addresses for views of guest memory.
  VaArena& views() { return views_; }

  // Scratch addresses of a GPU node; the first use reserves them with the library.
  struct Scratch {
    VaArena arena;
    bool reserved = false;
  };
  Scratch* scratch(std::uint32_t node_id);
  std::map<std::uint32_t, Scratch>& all_scratch() { return scratch_; }

 private:
  RocmBackend(const VhsakmtLayout& layout, bool strict, std::unique_ptr<HostThunk> thunk);
  void lay_out_addresses();

  const VhsakmtLayout& layout_;
  const bool strict_;
  const std::unique_ptr<HostThunk> thunk_;
  VaArena views_;
  std::shared_ptr<VaArena> shared_arena_;     // one_arena
  std::optional<VaArena> slices_;             // otherwise
  std::map<std::uint32_t, Scratch> scratch_;  // by node
};

}  // namespace understudy::virtio_gpu
