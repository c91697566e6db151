#include "sim/kfd/render/submission.h"

#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"
#include "uapi/drm.h"

namespace understudy::kfd {

using namespace uapi::amdgpu;

namespace {

// The kernel allocates whatever it is told; more than this it could not either.
constexpr std::uint32_t kMaxChunks = 1 << 20;
constexpr std::uint32_t kMaxChunkDwords = 1 << 24;
constexpr std::uint64_t kPageBytes = 4096;

engine::IndirectBufferKind kind_of(const RingId& ring) {
  return ring.ip_type == AMDGPU_HW_IP_DMA ? engine::IndirectBufferKind::kSdma
                                          : engine::IndirectBufferKind::kPm4;
}

RingId ring_of(const drm_amdgpu_cs_chunk_ib& ib) {
  return {ib.ip_type, ib.ip_instance, ib.ring};
}

std::uint64_t point_of(const drm_amdgpu_cs_chunk_sem&) {
  return 0;
}
std::uint64_t point_of(const drm_amdgpu_cs_chunk_syncobj& entry) {
  return entry.point;
}

}  // namespace

// As many whole entries as the chunk has.
template <typename T>
std::vector<T> Submission::Chunk::entries() const {
  std::vector<T> entries(data.size() / sizeof(T));
  if (!entries.empty()) std::memcpy(entries.data(), data.data(), entries.size() * sizeof(T));
  return entries;
}

Result<void> Submission::read(Call& call, const drm_amdgpu_cs_in& in) {
  if (in.num_chunks == 0) return Errno(EINVAL);
  context_ = file_.contexts().find(in.ctx_id);
  if (!context_) return Errno(EINVAL);
  if (context_->guilty()) return Errno(ECANCELED);
  if (in.num_chunks > kMaxChunks) return Errno(ENOMEM);
  for (const std::uint64_t address : TRY(call.memory().read_array<std::uint64_t>(in.chunks, in.num_chunks))) {
    TRY(read_chunk(call, address));
  }
  return gang_.empty() ? Result<void>(Errno(EINVAL)) : Result<void>();
}

Result<void> Submission::read_chunk(Call& call, std::uint64_t address) {
  const auto header = TRY(call.memory().read_value<drm_amdgpu_cs_chunk>(address));
  if (header.length_dw > kMaxChunkDwords) return Errno(ENOMEM);
  Chunk chunk{header.chunk_id, {}};
  chunk.data = TRY(call.memory().read_array<std::byte>(header.chunk_data, std::size_t{header.length_dw} * 4));
  switch (chunk.id) {
    case AMDGPU_CHUNK_ID_IB:
      for (const auto& ib : chunk.entries<drm_amdgpu_cs_chunk_ib>()) {
        TRY(announce_ib(ib));
        chunks_.push_back(std::move(chunk));
        return {};
      }
      return Errno(EINVAL);
    case AMDGPU_CHUNK_ID_FENCE:
      for (const auto& fence : chunk.entries<drm_amdgpu_cs_chunk_fence>()) return read_user_fence(fence);
      return Errno(EINVAL);
    case AMDGPU_CHUNK_ID_BO_HANDLES:
      for (const auto& list : chunk.entries<drm_amdgpu_bo_list_in>()) return read_bo_handles(call, list);
      return Errno(EINVAL);
    case AMDGPU_CHUNK_ID_CP_GFX_SHADOW:
      if (chunk.entries<drm_amdgpu_cs_chunk_cp_gfx_shadow>().empty()) return Errno(EINVAL);
      break;
    case AMDGPU_CHUNK_ID_DEPENDENCIES:
    case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
    case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
    case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
      break;
    default:
      return Errno(EINVAL);
  }
  chunks_.push_back(std::move(chunk));
  return {};
}

Submission::Member* Submission::member_of(const RingId& ring) {
  const auto found =
      std::find_if(gang_.begin(), gang_.end(), [&](const Member& member) { return member.ring == ring; });
  return found == gang_.end() ? nullptr : &*found;
}

// amdgpu_cs_p1_ib.
Result<void> Submission::announce_ib(const drm_amdgpu_cs_chunk_ib& ib) {
  const RingId ring = ring_of(ib);
  if (!is_ring_of_a_context(ring)) return Errno(EINVAL);
  if (hardware_ring_count(file_.gpu().profile(), ring.ip_type) == 0) return Errno(EINVAL);
  Member* member = member_of(ring);
  if (member == nullptr) {
    if (gang_.size() == kGangSize) return Errno(EINVAL);
    member = &gang_.emplace_back(Member{ring, 0, {}});
  }
  if (member->announced_ibs >= kMaxIbs[ring.ip_type]) return Errno(EINVAL);
  ++member->announced_ibs;
  leader_ = static_cast<std::size_t>(member - gang_.data());
  return {};
}

// amdgpu_cs_p1_user_fence.
Result<void> Submission::read_user_fence(const drm_amdgpu_cs_chunk_fence& chunk) {
  if (user_fence_bo_) return Errno(EINVAL);
  const Result<BoRef> bo = file_.lookup_bo(chunk.handle);
  if (!bo) return Errno(EINVAL);
  if (bo.value()->size_bytes() != kPageBytes || chunk.offset > kPageBytes - sizeof(std::uint64_t))
    return Errno(EINVAL);
  if (bo.value()->is_userptr()) return Errno(EINVAL);
  user_fence_bo_ = bo.value();
  user_fence_offset_bytes_ = chunk.offset;
  return {};
}

// amdgpu_cs_p1_bo_handles.
Result<void> Submission::read_bo_handles(Call& call, const drm_amdgpu_bo_list_in& chunk) {
  if (bos_) return Errno(EINVAL);
  bos_ = std::make_shared<const ListedBos>(
      TRY(make_bo_list(file_, call, TRY(read_bo_list_entries(call, chunk)))));
  return {};
}

std::vector<drm::SyncobjWait::Entry> Submission::missing_points() const {
  std::vector<drm::SyncobjWait::Entry> missing;
  for (const Chunk& chunk : chunks_) {
    if (chunk.id != AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT) continue;
    for (const auto& entry : chunk.entries<drm_amdgpu_cs_chunk_syncobj>()) {
      const drm::SyncobjRef syncobj = file_.syncobjs().find(entry.handle);
      const bool would_wait = (entry.flags & uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT) != 0;
      if (syncobj && would_wait && !syncobj->fence_at(entry.point)) missing.push_back({syncobj, entry.point});
    }
  }
  return missing;
}

Result<void> Submission::resolve() {
  for (const Chunk& chunk : chunks_) TRY(resolve_chunk(chunk));
  return {};
}

Result<void> Submission::resolve_chunk(const Chunk& chunk) {
  switch (chunk.id) {
    case AMDGPU_CHUNK_ID_IB:
      return add_ib(chunk.entries<drm_amdgpu_cs_chunk_ib>().front());
    case AMDGPU_CHUNK_ID_DEPENDENCIES:
    case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
      for (const auto& dependency : chunk.entries<drm_amdgpu_cs_chunk_dep>()) TRY(add_dependency(dependency));
      return {};
    case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
      for (const auto& entry : chunk.entries<drm_amdgpu_cs_chunk_sem>()) TRY(add_wait(entry.handle, 0));
      return {};
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
      for (const auto& entry : chunk.entries<drm_amdgpu_cs_chunk_syncobj>())
        TRY(add_wait(entry.handle, entry.point));
      return {};
    case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
      return add_signals(chunk.entries<drm_amdgpu_cs_chunk_sem>());
    case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
      return add_signals(chunk.entries<drm_amdgpu_cs_chunk_syncobj>());
    case AMDGPU_CHUNK_ID_CP_GFX_SHADOW: {
      const auto shadow = chunk.entries<drm_amdgpu_cs_chunk_cp_gfx_shadow>().front();
      if (shadow.flags & ~AMDGPU_CS_CHUNK_CP_GFX_SHADOW_FLAGS_INIT_SHADOW) return Errno(EINVAL);
      return {};
    }
    default:
      return {};
  }
}

// amdgpu_cs_p2_ib.
Result<void> Submission::add_ib(const drm_amdgpu_cs_chunk_ib& ib) {
  if (ib.ib_bytes / 4 > kMaxIbDwords) return Errno(EINVAL);
  const RingId ring = ring_of(ib);
  member_of(ring)->ibs.push_back({ib.va_start, ib.ib_bytes / 4, kind_of(ring)});
  return {};
}

// amdgpu_cs_p2_dependencies.
Result<void> Submission::add_dependency(const drm_amdgpu_cs_chunk_dep& dependency) {
  const ContextRef context = file_.contexts().find(dependency.ctx_id);
  if (!context) return Errno(EINVAL);
  const RingId ring{dependency.ip_type, dependency.ip_instance, dependency.ring};
  if (!is_ring_of_a_context(ring)) return Errno(EINVAL);
  if (const drm::FenceRef fence = TRY(context->fence(ring, dependency.handle))) waits_.push_back(fence);
  return {};
}

// amdgpu_syncobj_lookup_and_add.
Result<void> Submission::add_wait(std::uint32_t handle, std::uint64_t point) {
  const drm::SyncobjRef syncobj = file_.syncobjs().find(handle);
  if (!syncobj) return Errno(ENOENT);
  const drm::FenceRef fence = syncobj->fence_at(point);
  if (!fence) return Errno(EINVAL);
  waits_.push_back(fence);
  return {};
}

// amdgpu_cs_p2_syncobj_out, amdgpu_cs_p2_syncobj_timeline_signal.
template <typename T>
Result<void> Submission::add_signals(const std::vector<T>& entries) {
  if (std::exchange(has_signals_, true)) return Errno(EINVAL);
  for (const T& entry : entries) {
    const drm::SyncobjRef syncobj = file_.syncobjs().find(entry.handle);
    if (!syncobj) return Errno(EINVAL);
    signals_.push_back({syncobj, point_of(entry)});
  }
  return {};
}

Result<void> Submission::collect_bos(std::uint32_t bo_list_handle) {
  if (bo_list_handle != 0) {
    if (bos_) return Errno(EINVAL);
    bos_ = TRY(file_.bo_lists().find(bo_list_handle));
  }
  if (!bos_) bos_ = std::make_shared<const ListedBos>();
  for (const BoRef& bo : *bos_) {
    if (bo->is_userptr()) TRY(bo->check_user_pages());
  }
  return {};
}

IbJob Submission::job_of(const Member& member, const ClientRef& client) const {
  IbJob job;
  job.ibs = member.ibs;
  job.bos = *bos_;
  job.context = context_;
  job.vm = file_.vm();
  job.faults = file_.faults();
  job.client = client;
  return job;
}

std::uint64_t Submission::submit(const ClientRef& client) {
  std::uint64_t sequence = 0;
  for (std::size_t i = 0; i < gang_.size(); ++i) {
    IbJob job = job_of(gang_[i], client);
    std::vector<drm::FenceRef> after = waits_;
    if (i == leader_) {
      const Context::Submitted submitted = context_->submit(gang_[i].ring);
      if (submitted.previous) after.push_back(submitted.previous);
      sequence = submitted.sequence;
      job.fence = submitted.fence;
      job.user_fence_bo = user_fence_bo_;
      job.user_fence_offset_bytes = user_fence_offset_bytes_;
      job.user_fence_value = sequence;
      for (const Signal& signal : signals_) signal.syncobj->set_point(job.fence, signal.point);
    } else {
      job.fence = std::make_shared<drm::Fence>("drm_sched", ring_name(gang_[i].ring));
    }
    for (const BoRef& bo : *bos_) bo->reservation().add(job.fence);
    run_when_ready(file_.gpu(), drm::Fence::merge(after), std::move(job));
  }
  return sequence;
}

Outcome AmdgpuFile::cs(Call& call, drm_amdgpu_cs& args) {
  const drm_amdgpu_cs_in in = args.in;
  const auto submission = std::make_shared<Submission>(*this);
  TRY(submission->read(call, in));
  const auto go_on = [&args, submission, in, client = call.caller().client]() -> Outcome {
    TRY(submission->resolve());
    TRY(submission->collect_bos(in.bo_list_handle));
    args.out.handle = submission->submit(client);
    return 0;
  };
  auto missing = submission->missing_points();
  if (missing.empty()) return go_on();
  // DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT
  constexpr std::uint64_t kWaitForSubmitNs = 5'000'000'000;
  constexpr std::uint32_t kUntilAllAreThere =
      uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
  const auto deadline_ns = static_cast<std::int64_t>(call.machine().clock().now_ns() + kWaitForSubmitNs);
  return drm::SyncobjWait::start(call, std::move(missing), kUntilAllAreThere, deadline_ns,
                                 [go_on](std::uint32_t) { return go_on(); });
}

}  // namespace understudy::kfd
