// BO_LIST, CS and the waits for what was submitted. Mirrors amdgpu_bo_list.c and amdgpu_cs.c.
#include <algorithm>
#include <cstring>

#include "sim/core/machine.h"
#include "sim/drm/fence_wait.h"
#include "sim/drm/sync_file.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/render/ib_runner.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint32_t kMaxBoListEntries = 128 * 1024;
constexpr std::uint32_t kMaxChunks = 16 * 1024;
constexpr std::uint32_t kMaxChunkDwords = 1 << 20;
constexpr std::uint32_t kMaxFences = 16 * 1024;

// amdgpu_bo_create_list_entry_array: the caller's stride may be smaller or larger than ours.
Result<std::vector<BoRef>> read_bo_list(AmdgpuFile& file, Call& call, const drm_amdgpu_bo_list_in& in) {
  if (in.bo_number > kMaxBoListEntries) return Errno(EINVAL);
  std::vector<BoRef> bos;
  for (std::uint32_t i = 0; i < in.bo_number; ++i) {
    drm_amdgpu_bo_list_entry entry{};
    const std::size_t bytes = std::min<std::size_t>(in.bo_info_size, sizeof entry);
    TRY(call.memory().read(in.bo_info_ptr + std::uint64_t{i} * in.bo_info_size,
                           std::as_writable_bytes(std::span(&entry, 1)).first(bytes)));
    bos.push_back(TRY(file.lookup_bo(entry.bo_handle)));
  }
  return bos;
}

struct Submission {
  ContextRef context;
  std::vector<drm_amdgpu_cs_chunk_ib> ibs;
  std::vector<BoRef> bos;
  std::vector<drm::FenceRef> waits;
  struct Signal {
    drm::SyncobjRef syncobj;
    std::uint64_t point = 0;
  };
  std::vector<Signal> signals;
  BoRef fence_bo;
  std::uint64_t fence_offset_bytes = 0;
};

template <typename T>
std::vector<T> entries_of(std::span<const std::byte> data) {
  std::vector<T> entries(data.size() / sizeof(T));
  if (!entries.empty()) std::memcpy(entries.data(), data.data(), entries.size() * sizeof(T));
  return entries;
}

// One chunk's contribution to a submission.
class ChunkReader {
 public:
  ChunkReader(AmdgpuFile& file, Call& call, Submission& submission)
      : file_(file), call_(call), submission_(submission) {}

  Result<void> read(std::uint32_t id, std::span<const std::byte> data) {
    switch (id) {
      case AMDGPU_CHUNK_ID_IB:
        if (data.size() < sizeof(drm_amdgpu_cs_chunk_ib)) return Errno(EINVAL);
        submission_.ibs.push_back(entries_of<drm_amdgpu_cs_chunk_ib>(data).front());
        return {};
      case AMDGPU_CHUNK_ID_FENCE:
        return read_fence(data);
      case AMDGPU_CHUNK_ID_BO_HANDLES:
        if (data.size() < sizeof(drm_amdgpu_bo_list_in)) return Errno(EINVAL);
        return add_bos(entries_of<drm_amdgpu_bo_list_in>(data).front());
      case AMDGPU_CHUNK_ID_DEPENDENCIES:
      case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
        return read_dependencies(data);
      case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
        for (const auto& entry : entries_of<drm_amdgpu_cs_chunk_sem>(data)) TRY(add_wait(entry.handle, 0));
        return {};
      case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
        for (const auto& entry : entries_of<drm_amdgpu_cs_chunk_syncobj>(data))
          TRY(add_wait(entry.handle, entry.point));
        return {};
      case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
        for (const auto& entry : entries_of<drm_amdgpu_cs_chunk_sem>(data)) TRY(add_signal(entry.handle, 0));
        return {};
      case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
        for (const auto& entry : entries_of<drm_amdgpu_cs_chunk_syncobj>(data))
          TRY(add_signal(entry.handle, entry.point));
        return {};
      case AMDGPU_CHUNK_ID_CP_GFX_SHADOW:
        return {};
      default:
        return Errno(EINVAL);
    }
  }

 private:
  Result<void> read_fence(std::span<const std::byte> data) {
    if (data.size() < sizeof(drm_amdgpu_cs_chunk_fence)) return Errno(EINVAL);
    const auto fence = entries_of<drm_amdgpu_cs_chunk_fence>(data).front();
    const Result<BoRef> bo = file_.lookup_bo(fence.handle);
    if (!bo || bo.value()->is_userptr()) return Errno(EINVAL);
    // The user fence page: exactly one page, and the value inside it.
    if (bo.value()->size_bytes() != 4096 || fence.offset > 4096 - sizeof(std::uint64_t)) return Errno(EINVAL);
    submission_.fence_bo = bo.value();
    submission_.fence_offset_bytes = fence.offset;
    return {};
  }
  Result<void> add_bos(const drm_amdgpu_bo_list_in& in) {
    for (BoRef& bo : TRY(read_bo_list(file_, call_, in))) submission_.bos.push_back(std::move(bo));
    return {};
  }
  Result<void> read_dependencies(std::span<const std::byte> data) {
    for (const auto& dependency : entries_of<drm_amdgpu_cs_chunk_dep>(data)) {
      const ContextRef context = file_.contexts().find(dependency.ctx_id);
      if (!context) return Errno(EINVAL);
      const drm::FenceRef fence = TRY(
          context->fence({dependency.ip_type, dependency.ip_instance, dependency.ring}, dependency.handle));
      if (fence) submission_.waits.push_back(fence);
    }
    return {};
  }
  Result<void> add_wait(std::uint32_t handle, std::uint64_t point) {
    const drm::SyncobjRef syncobj = file_.syncobjs().find(handle);
    if (!syncobj) return Errno(ENOENT);
    const drm::FenceRef fence = syncobj->fence_at(point);
    if (!fence) return Errno(EINVAL);
    submission_.waits.push_back(fence);
    return {};
  }
  Result<void> add_signal(std::uint32_t handle, std::uint64_t point) {
    const drm::SyncobjRef syncobj = file_.syncobjs().find(handle);
    if (!syncobj) return Errno(EINVAL);
    submission_.signals.push_back({syncobj, point});
    return {};
  }

  AmdgpuFile& file_;
  Call& call_;
  Submission& submission_;
};

Result<drm::FenceRef> fence_of(AmdgpuFile& file, const drm_amdgpu_fence& wanted) {
  const ContextRef context = file.contexts().find(wanted.ctx_id);
  if (!context) return Errno(EINVAL);
  return context->fence({wanted.ip_type, wanted.ip_instance, wanted.ring}, wanted.seq_no);
}

bool is_known_ring(const drm_amdgpu_cs_chunk_ib& ib) {
  return ib.ip_instance == 0 && ((ib.ip_type == AMDGPU_HW_IP_GFX && ib.ring < 1) ||
                                 (ib.ip_type == AMDGPU_HW_IP_COMPUTE && ib.ring < 4) ||
                                 (ib.ip_type == AMDGPU_HW_IP_DMA && ib.ring < 2));
}

}  // namespace

Outcome AmdgpuFile::bo_list(Call& call, drm_amdgpu_bo_list& args) {
  const drm_amdgpu_bo_list_in in = args.in;
  // The entries are read before the operation is looked at.
  std::vector<BoRef> bos = TRY(read_bo_list(*this, call, in));
  std::uint32_t handle = in.list_handle;
  switch (in.operation) {
    case AMDGPU_BO_LIST_OP_CREATE:
      handle = bo_lists_.add(std::move(bos));
      break;
    case AMDGPU_BO_LIST_OP_DESTROY:
      bo_lists_.remove(in.list_handle);
      handle = 0;
      break;
    case AMDGPU_BO_LIST_OP_UPDATE:
      if (!bo_lists_.replace(in.list_handle, std::move(bos))) return Errno(ENOENT);
      break;
    default:
      return Errno(EINVAL);
  }
  args.out = {handle, 0};
  return 0;
}

Outcome AmdgpuFile::cs(Call& call, drm_amdgpu_cs& args) {
  const drm_amdgpu_cs_in in = args.in;
  if (in.num_chunks == 0 || in.num_chunks > kMaxChunks) return Errno(EINVAL);
  Submission submission;
  submission.context = contexts_.find(in.ctx_id);
  if (!submission.context) return Errno(EINVAL);
  if (in.flags != 0) return Errno(EINVAL);
  ChunkReader reader(*this, call, submission);
  for (const std::uint64_t pointer : TRY(call.memory().read_array<std::uint64_t>(in.chunks, in.num_chunks))) {
    const auto chunk = TRY(call.memory().read_value<drm_amdgpu_cs_chunk>(pointer));
    if (chunk.length_dw > kMaxChunkDwords) return Errno(EINVAL);
    const auto data =
        TRY(call.memory().read_array<std::byte>(chunk.chunk_data, std::size_t{chunk.length_dw} * 4));
    TRY(reader.read(chunk.chunk_id, data));
  }
  if (submission.ibs.empty()) return Errno(EINVAL);
  for (const drm_amdgpu_cs_chunk_ib& ib : submission.ibs) {
    if (!is_known_ring(ib)) return Errno(EINVAL);
  }
  if (in.bo_list_handle != 0) {
    const auto listed = bo_lists_.find(in.bo_list_handle);
    if (!listed) return Errno(ENOENT);
    submission.bos.insert(submission.bos.end(), listed->begin(), listed->end());
  }

  const drm_amdgpu_cs_chunk_ib& last = submission.ibs.back();
  const RingId ring{last.ip_type, last.ip_instance, last.ring};
  auto fence = std::make_shared<drm::Fence>("amdgpu", "ring", 0, 0);
  const std::uint64_t sequence = submission.context->add_fence(ring, fence);
  for (const BoRef& bo : submission.bos) bo->reservation().add(fence);
  for (const Submission::Signal& signal : submission.signals) {
    if (signal.point == 0) {
      signal.syncobj->replace(fence);
    } else {
      signal.syncobj->add_point(fence, signal.point);
    }
  }
  IbJob job;
  for (const drm_amdgpu_cs_chunk_ib& ib : submission.ibs)
    job.ibs.push_back({ib.va_start, ib.ib_bytes, ib.ip_type});
  job.fence = fence;
  job.bos = std::move(submission.bos);
  job.user_fence_bo = submission.fence_bo;
  job.user_fence_offset_bytes = submission.fence_offset_bytes;
  job.user_fence_value = sequence;
  run_when_ready(gpu(), vm_, drm::Fence::merge(std::move(submission.waits)), std::move(job));
  args.out.handle = sequence;
  return 0;
}

Outcome AmdgpuFile::wait_cs(Call& call, drm_amdgpu_wait_cs& args) {
  const drm_amdgpu_wait_cs_in in = args.in;
  if (in.ip_type >= AMDGPU_HW_IP_NUM) return Errno(EINVAL);
  const ContextRef context = contexts_.find(in.ctx_id);
  if (!context) return Errno(EINVAL);
  const drm::FenceRef fence = TRY(context->fence({in.ip_type, in.ip_instance, in.ring}, in.handle));
  return drm::wait_for_fence(call, fence, in.timeout, [&args, fence](bool signalled) -> Outcome {
    args.out.status = signalled ? 0 : 1;
    return signalled && fence && fence->error() != 0 ? Outcome(Errno(fence->error())) : Outcome(0);
  });
}

Outcome AmdgpuFile::wait_fences(Call& call, drm_amdgpu_wait_fences& args) {
  const drm_amdgpu_wait_fences_in in = args.in;
  if (in.fence_count == 0 || in.fence_count > kMaxFences) return Errno(EINVAL);
  std::vector<drm::FenceRef> fences;
  for (const auto& wanted : TRY(call.memory().read_array<drm_amdgpu_fence>(in.fences, in.fence_count))) {
    const drm::FenceRef fence = TRY(fence_of(*this, wanted));
    fences.push_back(fence ? fence : drm::Fence::signalled());
  }
  if (in.wait_all != 0) {
    return drm::wait_for_fence(call, drm::Fence::merge(fences), in.timeout_ns,
                               [&args](bool signalled) -> Outcome {
                                 args.out.status = signalled ? 1 : 0;
                                 args.out.first_signaled = 0;
                                 return 0;
                               });
  }
  return drm::wait_for_any_fence(call, fences, in.timeout_ns,
                                 [&args](std::optional<std::size_t> first) -> Outcome {
                                   args.out.status = first ? 1 : 0;
                                   args.out.first_signaled = first ? static_cast<std::uint32_t>(*first) : ~0u;
                                   return 0;
                                 });
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
