#include "sim/virtio_gpu/guest/fence_timeline.h"

#include <algorithm>
#include <vector>

#include "uapi/virtgpu.h"

namespace understudy::virtio_gpu {
namespace {

struct FenceEvent {  // struct drm_event
  std::uint32_t type = uapi::virtgpu::VIRTGPU_EVENT_FENCE_SIGNALED;
  std::uint32_t length = sizeof(FenceEvent);
};
static_assert(sizeof(FenceEvent) == 8);

drm::FenceRef make_fence(std::uint64_t context) {
  return std::make_shared<drm::Fence>("virtio_gpu", "controlq", context);
}

}  // namespace

FenceTimeline::FenceTimeline() : context_(drm::Fence::allocate_contexts(1)) {}

VirtioFenceRef FenceTimeline::make() const {
  auto fence = std::make_shared<VirtioFence>();
  fence->fence = make_fence(context_);
  return fence;
}

VirtioFenceRef FenceTimeline::make_on_ring(std::uint64_t ring_contexts, std::uint32_t ring_index) const {
  auto fence = std::make_shared<VirtioFence>();
  fence->fence = make_fence(ring_contexts + ring_index);
  fence->on_ring = true;
  fence->ring_index = static_cast<std::uint8_t>(ring_index);
  return fence;
}

void FenceTimeline::emit(const VirtioFenceRef& fence, CommandHeader& header) {
  const std::lock_guard lock(mutex_);
  fence->id = ++last_id_;
  pending_.push_back(fence);
  header.flags |= abi::VIRTIO_GPU_FLAG_FENCE;
  header.fence_id = fence->id;
  if (fence->on_ring) {
    header.flags |= abi::VIRTIO_GPU_FLAG_INFO_RING_IDX;
    header.ring_idx = fence->ring_index;
  }
}

void FenceTimeline::process(std::uint64_t fence_id) {
  std::vector<VirtioFenceRef> signalled;
  {
    const std::lock_guard lock(mutex_);
    const auto answered = std::ranges::find(pending_, fence_id, &VirtioFence::id);
    if (answered == pending_.end()) return;
    const VirtioFenceRef latest = *answered;
    std::erase_if(pending_, [&](const VirtioFenceRef& fence) {
      const bool done = fence->fence->context() == latest->fence->context() && fence->id <= latest->id;
      if (done) signalled.push_back(fence);
      return done;
    });
  }
  for (const VirtioFenceRef& fence : signalled) finish(*fence, 0);
}

void FenceTimeline::cancel_all(int error) {
  std::list<VirtioFenceRef> cancelled;
  {
    const std::lock_guard lock(mutex_);
    cancelled.swap(pending_);
  }
  for (const VirtioFenceRef& fence : cancelled) finish(*fence, error);
}

void FenceTimeline::finish(const VirtioFence& fence, int error) {
  fence.fence->signal(error);
  if (const FileRef file = fence.event_file.lock()) {
    const FenceEvent event;
    const auto bytes = std::as_bytes(std::span(&event, 1));
    file->queue_read({bytes.begin(), bytes.end()});
  }
}

std::size_t FenceTimeline::pending_count() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

}  // namespace understudy::virtio_gpu
