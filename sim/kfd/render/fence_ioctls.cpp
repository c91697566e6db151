// Waits for what was submitted, and its fences as syncobjs and sync_files. Mirrors amdgpu_cs.c:
// amdgpu_cs_wait_ioctl, amdgpu_cs_wait_fences_ioctl, amdgpu_cs_fence_to_handle_ioctl.
#include "sim/core/machine.h"
#include "sim/drm/call_wait.h"
#include "sim/drm/fence_wait.h"
#include "sim/drm/sync_file.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

// The kernel allocates whatever it is told; more than this it could not either.
constexpr std::uint32_t kMaxFences = 1 << 20;

// amdgpu_cs_get_fence; null: signalled.
Result<drm::FenceRef> fence_of(AmdgpuFile& file, const drm_amdgpu_fence& wanted) {
  const ContextRef context = file.contexts().find(wanted.ctx_id);
  if (!context) return Errno(EINVAL);
  const RingId ring{wanted.ip_type, wanted.ip_instance, wanted.ring};
  if (!is_ring_of_a_context(ring)) return Errno(EINVAL);
  return context->fence(ring, wanted.seq_no);
}

// An error that ended the fence's work becomes the wait's.
Outcome error_of(const drm::FenceRef& fence) {
  return fence && fence->error() != 0 ? Outcome(Errno(fence->error())) : Outcome(0);
}

// Waits for one fence after the other; each is looked up when it is its turn (amdgpu_cs_wait_all_fences).
class WaitForAll : public std::enable_shared_from_this<WaitForAll> {
 public:
  WaitForAll(AmdgpuFile& file, Call& call, std::vector<drm_amdgpu_fence> fences, drm_amdgpu_wait_fences& args)
      : file_(file), wait_(std::make_shared<drm::CallWait>(call)), fences_(std::move(fences)), args_(args) {}

  static Outcome start(AmdgpuFile& file, Call& call, std::vector<drm_amdgpu_fence> fences,
                       drm_amdgpu_wait_fences& args) {
    const std::uint64_t deadline_ns = args.in.timeout_ns;
    const auto self = std::make_shared<WaitForAll>(file, call, std::move(fences), args);
    self->go_on();
    const bool for_ever = static_cast<std::int64_t>(deadline_ns) < 0;
    self->wait_->arm(for_ever ? std::nullopt : std::optional(deadline_ns),
                     [self] { return self->answer(0); });
    return Outcome::later();
  }

 private:
  void go_on() {
    while (next_ < fences_.size()) {
      const Result<drm::FenceRef> fence = fence_of(file_, fences_[next_]);
      if (!fence) return wait_->end([&] { return Outcome(fence.error()); });
      if (fence.value() && !fence.value()->is_signalled()) return watch(fence.value());
      if (fence.value() && fence.value()->error() != 0) {
        return wait_->end([&] { return error_of(fence.value()); });
      }
      ++next_;
    }
    wait_->end([&] { return answer(1); });
  }
  void watch(const drm::FenceRef& fence) {
    const auto id = fence->on_signal([self = shared_from_this()] { self->go_on(); });
    wait_->on_end([fence, id] { fence->forget(id); });
  }
  Outcome answer(std::uint32_t status) {
    args_ = {};
    args_.out.status = status;
    return 0;
  }

  AmdgpuFile& file_;
  const std::shared_ptr<drm::CallWait> wait_;
  const std::vector<drm_amdgpu_fence> fences_;
  drm_amdgpu_wait_fences& args_;
  std::size_t next_ = 0;
};

Outcome wait_for_any(AmdgpuFile& file, Call& call, const std::vector<drm_amdgpu_fence>& wanted,
                     drm_amdgpu_wait_fences& args) {
  if (wanted.empty()) return Errno(EINVAL);
  std::vector<drm::FenceRef> fences;
  for (const drm_amdgpu_fence& fence : wanted) {
    fences.push_back(TRY(fence_of(file, fence)));
    if (!fences.back()) break;
  }
  const std::uint64_t deadline_ns = args.in.timeout_ns;
  // One that is long done ends the search, whatever the others are.
  if (!fences.back()) {
    args = {};
    args.out.status = 1;
    args.out.first_signaled = static_cast<std::uint32_t>(fences.size() - 1);
    return 0;
  }
  return drm::wait_for_any_fence(call, fences, deadline_ns,
                                 [&args, fences](std::optional<std::size_t> first) -> Outcome {
                                   args = {};
                                   args.out.status = first ? 1 : 0;
                                   args.out.first_signaled = first ? static_cast<std::uint32_t>(*first) : ~0u;
                                   return first ? error_of(fences[*first]) : Outcome(0);
                                 });
}

}  // namespace

Outcome AmdgpuFile::wait_cs(Call& call, drm_amdgpu_wait_cs& args) {
  const drm_amdgpu_wait_cs_in in = args.in;
  const ContextRef context = contexts_.find(in.ctx_id);
  if (!context) return Errno(EINVAL);
  const RingId ring{in.ip_type, in.ip_instance, in.ring};
  if (!is_ring_of_a_context(ring)) return Errno(EINVAL);
  const drm::FenceRef fence = TRY(context->fence(ring, in.handle));
  return drm::wait_for_fence(call, fence, in.timeout, [&args, fence](bool signalled) -> Outcome {
    if (signalled && fence && fence->error() != 0) return error_of(fence);
    args = {};
    args.out.status = signalled ? 0 : 1;
    return 0;
  });
}

Outcome AmdgpuFile::wait_fences(Call& call, drm_amdgpu_wait_fences& args) {
  const drm_amdgpu_wait_fences_in in = args.in;
  if (in.fence_count > kMaxFences) return Errno(ENOMEM);
  auto fences = TRY(call.memory().read_array<drm_amdgpu_fence>(in.fences, in.fence_count));
  return in.wait_all != 0 ? WaitForAll::start(*this, call, std::move(fences), args)
                          : wait_for_any(*this, call, fences, args);
}

Outcome AmdgpuFile::fence_to_handle(Call& call, drm_amdgpu_fence_to_handle& args) {
  const auto in = args.in;
  drm::FenceRef fence = TRY(fence_of(*this, in.fence));
  if (!fence) fence = drm::Fence::signalled();
  constexpr std::uint32_t kHandleOffset = offsetof(drm_amdgpu_fence_to_handle, out);
  const auto make_syncobj = [&] {
    auto syncobj = std::make_shared<drm::Syncobj>();
    syncobj->replace(fence);
    return syncobj;
  };
  switch (in.what) {
    case AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ:
      args.out.handle = TRY(syncobjs().create_handle(&call, make_syncobj()));
      return 0;
    case AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD:
      return call.hand_fd(
          TRY(call.machine().files().make_descriptor(std::make_shared<drm::SyncobjFile>(make_syncobj()))),
          kHandleOffset);
    case AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD:
      return call.hand_fd(TRY(drm::SyncFile::make_descriptor(call.machine(), fence)), kHandleOffset);
    default:
      return Errno(EINVAL);
  }
}

}  // namespace understudy::kfd
