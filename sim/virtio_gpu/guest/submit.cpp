#include "sim/virtio_gpu/guest/submit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/core/machine.h"
#include "sim/drm/sync_file.h"
#include "sim/virtio_gpu/guest/fence_wait.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint32_t kFenceIn = guest_abi::VIRTGPU_EXECBUF_FENCE_FD_IN;
constexpr std::uint32_t kFenceOut = guest_abi::VIRTGPU_EXECBUF_FENCE_FD_OUT;
constexpr std::uint32_t kRingIndex = guest_abi::VIRTGPU_EXECBUF_RING_IDX;

// More entries of an array than kernel memory is given for.
constexpr std::uint32_t kMostHandles = 1 << 24;
constexpr std::uint32_t kMostSyncobjs = 1 << 20;
constexpr std::size_t kHandlesAtOnce = 4096;

}  // namespace

Outcome Submit::start(VirtioGpuFile& file, Call& call, const SubmitArguments& args,
                      std::uint32_t fence_fd_offset) {
  const std::shared_ptr<Submit> submit(new Submit(file, call, args, fence_fd_offset));
  TRY(submit->check_flags());
  file.ensure_context(&call);
  return file.gpu().kernel().has_syncobjs ? submit->run_waiting_last() : submit->run_waiting_first();
}

Submit::Submit(VirtioGpuFile& file, Call& call, const SubmitArguments& args, std::uint32_t fence_fd_offset)
    : file_(file),
      call_(call.shared_from_this()),
      args_(args),
      fence_fd_offset_(fence_fd_offset),
      fence_context_(file.gpu().fences().context()) {}

Result<void> Submit::check_flags() {
  if (!file_.gpu().has_3d()) return Errno(ENOSYS);
  if ((args_.flags & ~guest_abi::VIRTGPU_EXECBUF_FLAGS) != 0) return Errno(EINVAL);
  if (!wants(kRingIndex)) return {};
  const std::lock_guard lock(file_.context_mutex_);
  const auto& context = file_.context_;
  if (args_.ring_index >= context.ring_count || context.ring_contexts == 0) return Errno(EINVAL);
  ring_contexts_ = context.ring_contexts;
  fence_context_ = ring_contexts_ + args_.ring_index;
  polls_ring_ = (context.poll_rings >> args_.ring_index & 1) != 0;
  return {};
}

Outcome Submit::run_waiting_first() {
  if (!wants(kFenceIn)) return after_early_wait();
  const drm::FenceRef in_fence = TRY(drm::SyncFile::of_client_fd(*call_, args_.fence_fd));
  if (foreign_parts(in_fence).empty()) return after_early_wait();
  return FenceWait::start(*call_, {in_fence}, {}, [self = shared_from_this()](WaitEnd end) -> Outcome {
    return end == WaitEnd::kInterrupted ? Outcome(Errno(EINTR)) : self->after_early_wait();
  });
}

Outcome Submit::after_early_wait() {
  TRY(read_buffer_handles());
  TRY(read_command());
  TRY(lock_reservations());
  make_fence();
  TRY(make_out_descriptor());
  return queue();
}

Outcome Submit::run_waiting_last() {
  make_fence();
  TRY(read_buffer_handles());
  TRY(read_command());
  TRY(make_out_descriptor());
  TRY(read_out_syncobjs());
  if (args_.in_syncobj_count > kMostSyncobjs) return Errno(ENOMEM);
  return wait_for_in_syncobjs();
}

Outcome Submit::wait_for_in_syncobjs() {
  while (next_in_syncobj_ < args_.in_syncobj_count) {
    const auto entry = TRY(read_syncobj(args_.in_syncobjs, next_in_syncobj_));
    if ((entry.flags & ~guest_abi::VIRTGPU_EXECBUF_SYNCOBJ_FLAGS) != 0) return Errno(EINVAL);
    const drm::SyncobjRef syncobj = file_.syncobjs().find(entry.handle);
    if (!syncobj) return Errno(ENOENT);
    const drm::FenceRef fence = syncobj->fence_at(entry.point);
    if (!fence) return Errno(EINVAL);
    ++next_in_syncobj_;
    if ((entry.flags & guest_abi::VIRTGPU_EXECBUF_SYNCOBJ_RESET) != 0) reset_later_.push_back(syncobj);

    const std::vector<drm::FenceRef> foreign = foreign_parts(fence);
    if (std::ranges::all_of(foreign, &drm::Fence::is_signalled)) continue;
    return FenceWait::start(*call_, foreign, {}, [self = shared_from_this()](WaitEnd end) -> Outcome {
      return end == WaitEnd::kInterrupted ? Outcome(Errno(EINTR)) : self->wait_for_in_syncobjs();
    });
  }
  return wait_for_in_fence();
}

Outcome Submit::wait_for_in_fence() {
  // From here on, whatever happens, syncobjs that were to be reset are.
  const auto finish = [self = shared_from_this()](Outcome outcome) {
    self->reset_in_syncobjs();
    return outcome;
  };
  if (!wants(kFenceIn)) return finish(queue());
  const Result<drm::FenceRef> in_fence = drm::SyncFile::of_client_fd(*call_, args_.fence_fd);
  if (!in_fence) return finish(in_fence.error());
  return FenceWait::start(
      *call_, foreign_parts(in_fence.value()), {},
      [self = shared_from_this(), finish](WaitEnd end) -> Outcome {
        return finish(end == WaitEnd::kInterrupted ? Outcome(Errno(EINTR)) : self->queue());
      });
}

Outcome Submit::queue() {
  TRY(lock_reservations());
  if (out_descriptor_) TRY(call_->hand_fd(std::move(out_descriptor_), fence_fd_offset_));

  Submit3d command;
  command.body.hdr.ctx_id = file_.context_id();
  command.body.size = args_.size_bytes;
  ControlQueue::Entry entry;
  entry.command = encode_command(command);
  entry.data = std::move(command_);
  entry.fence = out_fence_;
  entry.objects = std::move(objects_);
  file_.gpu().control().queue(std::move(entry));
  file_.gpu().control().notify();

  for (const OutSyncobj& out : out_syncobjs_) {
    if (out.point != 0) {
      out.syncobj->add_point(out_fence_->fence, out.point);
    } else {
      out.syncobj->replace(out_fence_->fence);
    }
  }
  return 0;
}

Result<void> Submit::read_buffer_handles() {
  if (args_.bo_handle_count > kMostHandles) return Errno(ENOMEM);
  std::vector<std::uint32_t> handles;
  while (handles.size() < args_.bo_handle_count) {
    const std::size_t count = std::min<std::size_t>(args_.bo_handle_count - handles.size(), kHandlesAtOnce);
    const auto some =
        TRY(call_->memory().read_array<std::uint32_t>(args_.bo_handles + handles.size() * 4, count));
    handles.insert(handles.end(), some.begin(), some.end());
  }
  for (const std::uint32_t handle : handles) objects_.push_back(TRY(file_.lookup(handle)));
  return {};
}

Result<void> Submit::read_command() {
  if (args_.size_bytes > kLargestCommandBytes) return Errno(ENOMEM);
  command_ = TRY(call_->memory().read_array<std::byte>(args_.command, args_.size_bytes));
  return {};
}

Result<void> Submit::make_out_descriptor() {
  if (!wants(kFenceOut)) return {};
  out_descriptor_ = TRY(drm::SyncFile::make_descriptor(call_->machine(), out_fence_->fence));
  return {};
}

Result<guest_abi::drm_virtgpu_execbuffer_syncobj> Submit::read_syncobj(std::uint64_t array,
                                                                       std::uint32_t index) {
  guest_abi::drm_virtgpu_execbuffer_syncobj entry{};
  const std::size_t known = std::min<std::size_t>(args_.syncobj_stride_bytes, sizeof entry);
  const std::uint64_t address = array + std::uint64_t{index} * args_.syncobj_stride_bytes;
  TRY(call_->memory().read(address, std::as_writable_bytes(std::span(&entry, 1)).first(known)));
  return entry;
}

Result<void> Submit::read_out_syncobjs() {
  if (args_.out_syncobj_count > kMostSyncobjs) return Errno(ENOMEM);
  for (std::uint32_t index = 0; index < args_.out_syncobj_count; ++index) {
    const auto entry = TRY(read_syncobj(args_.out_syncobjs, index));
    if (entry.flags != 0) return Errno(EINVAL);
    drm::SyncobjRef syncobj = file_.syncobjs().find(entry.handle);
    if (!syncobj) return Errno(EINVAL);
    out_syncobjs_.push_back({std::move(syncobj), entry.point});
  }
  return {};
}

// A single reservation can always be locked; of several, each only once.
Result<void> Submit::lock_reservations() const {
  std::set<const drm::GemObject*> locked;
  for (const drm::GemRef& object : objects_) {
    if (!locked.insert(object.get()).second) return Errno(EALREADY);
  }
  return {};
}

// A fence is made only if somebody will look at it.
void Submit::make_fence() {
  if (!wants(kFenceOut) && args_.bo_handle_count == 0 && args_.out_syncobj_count == 0 && !polls_ring_) return;
  FenceTimeline& fences = file_.gpu().fences();
  out_fence_ = wants(kRingIndex) ? fences.make_on_ring(ring_contexts_, args_.ring_index) : fences.make();
  if (polls_ring_) out_fence_->event_file = call_->file();
}

std::vector<drm::FenceRef> Submit::foreign_parts(const drm::FenceRef& fence) const {
  std::vector<drm::FenceRef> parts = fence->parts();
  if (parts.empty()) parts.push_back(fence);
  std::erase_if(parts, [this](const drm::FenceRef& part) { return part->context() == fence_context_; });
  return parts;
}

void Submit::reset_in_syncobjs() {
  for (const drm::SyncobjRef& syncobj : reset_later_) syncobj->replace(nullptr);
}

}  // namespace understudy::virtio_gpu
