// FenceTimeline: the fences of the control queue, from the moment a command is queued until its answer.
//
// Owner: VirtioGpuDevice. Units: none. Errors: none. Thread-safety: locks itself; fences are signalled and
// events sent without the lock. Mirrors: virtio/virtgpu_fence.c.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "sim/core/file.h"
#include "sim/drm/fence.h"
#include "sim/virtio_gpu/wire/commands.h"

namespace understudy::virtio_gpu {

struct VirtioFence {
  drm::FenceRef fence;
  // Set for a fence on a context's ring, which is named in the command.
  bool on_ring = false;
  std::uint8_t ring_index = 0;
  // A file that wants an event when the fence signals.
  std::weak_ptr<File> event_file;
  std::uint64_t id = 0;  // given when emitted
};
using VirtioFenceRef = std::shared_ptr<VirtioFence>;

class FenceTimeline {
 public:
  FenceTimeline();

  std::uint64_t context() const { return context_; }

  // On the global context, or on ring `ring_index` of the contexts that start at `ring_contexts`.
  VirtioFenceRef make() const;
  VirtioFenceRef make_on_ring(std::uint64_t ring_contexts, std::uint32_t ring_index) const;

  // Gives the fence its number and writes it into the command's header. Called in the order of the queue.
  void emit(const VirtioFenceRef& fence, CommandHeader& header);
  // The device has answered the command with this fence: signals it and all earlier ones of its context.
  void process(std::uint64_t fence_id);
  // The device will not answer any more.
  void cancel_all(int error);
  std::size_t pending_count() const;

 private:
  static void finish(const VirtioFence& fence, int error);
  const std::uint64_t context_;
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;          // guarded by mutex_
  std::list<VirtioFenceRef> pending_;  // guarded by mutex_; in order of emission
};

}  // namespace understudy::virtio_gpu
