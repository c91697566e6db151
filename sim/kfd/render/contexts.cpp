// CTX, SCHED and VM. Mirrors amdgpu_ctx.c, amdgpu_sched.c, amdgpu_vm.c: amdgpu_vm_ioctl.
#include "sim/kfd/render/contexts.h"

#include <linux/capability.h>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::int32_t kKnownPriorities[] = {
    AMDGPU_CTX_PRIORITY_VERY_LOW, AMDGPU_CTX_PRIORITY_LOW,       AMDGPU_CTX_PRIORITY_NORMAL,
    AMDGPU_CTX_PRIORITY_HIGH,     AMDGPU_CTX_PRIORITY_VERY_HIGH,
};

bool is_known_priority(std::int32_t priority) {
  for (const std::int32_t known : kKnownPriorities) {
    if (known == priority) return true;
  }
  return false;
}

}  // namespace

std::uint64_t Context::add_fence(RingId ring, const drm::FenceRef& fence) {
  const std::lock_guard lock(mutex_);
  Ring& fences = rings_[ring];
  fences.fences[++fences.last_sequence] = fence;
  if (fences.fences.size() > kFencesKept) fences.fences.erase(fences.fences.begin());
  return fences.last_sequence;
}

Result<drm::FenceRef> Context::fence(RingId ring, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto found = rings_.find(ring);
  const std::uint64_t last = found == rings_.end() ? 0 : found->second.last_sequence;
  if (sequence == ~std::uint64_t{0}) sequence = last;
  if (sequence > last) return Errno(EINVAL);
  if (found == rings_.end()) return drm::FenceRef();
  const auto fence = found->second.fences.find(sequence);
  return fence == found->second.fences.end() ? drm::FenceRef() : fence->second;
}

std::uint64_t Context::loss_flags(std::uint32_t resets, std::uint32_t vram_losses) const {
  std::uint64_t flags = 0;
  if (resets != resets_) flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET;
  if (vram_losses != vram_losses_) flags |= AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
  return flags;
}

std::uint32_t Contexts::add(ContextRef context, LedgerEntry entry) {
  const std::lock_guard lock(mutex_);
  std::uint32_t id = 1;
  while (slots_.contains(id)) ++id;
  slots_[id] = {std::move(context), std::move(entry)};
  return id;
}

ContextRef Contexts::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  return found == slots_.end() ? nullptr : found->second.context;
}

bool Contexts::remove(std::uint32_t id) {
  std::map<std::uint32_t, Slot>::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = slots_.extract(id);
  return !removed.empty();
}

void Contexts::clear() {
  std::map<std::uint32_t, Slot> removed;
  const std::lock_guard lock(mutex_);
  removed.swap(slots_);
}

Outcome AmdgpuFile::ctx(Call& call, drm_amdgpu_ctx& args) {
  const drm_amdgpu_ctx_in in = args.in;
  std::int32_t priority = in.priority;
  // Garbage in the field is tolerated for old user space.
  if (!is_known_priority(priority)) priority = AMDGPU_CTX_PRIORITY_NORMAL;
  switch (in.op) {
    case AMDGPU_CTX_OP_ALLOC_CTX: {
      if (in.flags != 0) return Errno(EINVAL);
      if (priority > static_cast<std::int32_t>(AMDGPU_CTX_PRIORITY_NORMAL) &&
          !call.client().has_capability(CAP_SYS_NICE) && !primary().is_current_master()) {
        return Errno(EACCES);
      }
      const std::uint32_t id =
          contexts_.add(std::make_shared<Context>(priority, gpu().reset_count(), gpu().vram_lost_count()),
                        call.machine().ledger().open(ObjectKind::kContext, &call, "context on " + label()));
      args.out = {};
      args.out.alloc.ctx_id = id;
      return 0;
    }
    case AMDGPU_CTX_OP_FREE_CTX:
      if (in.flags != 0) return Errno(EINVAL);
      return contexts_.remove(in.ctx_id) ? Outcome(0) : Errno(EINVAL);
    case AMDGPU_CTX_OP_QUERY_STATE:
    case AMDGPU_CTX_OP_QUERY_STATE2: {
      if (in.flags != 0) return Errno(EINVAL);
      const ContextRef context = contexts_.find(in.ctx_id);
      if (!context) return Errno(EINVAL);
      args.out = {};
      args.out.state.hangs = context->hangs;
      const std::uint32_t resets = gpu().reset_count();
      if (in.op == AMDGPU_CTX_OP_QUERY_STATE2) {
        args.out.state.flags = context->loss_flags(resets, gpu().vram_lost_count());
        return 0;
      }
      const bool is_new = context->resets_seen.exchange(resets) != resets;
      args.out.state.reset_status = is_new ? AMDGPU_CTX_UNKNOWN_RESET : AMDGPU_CTX_NO_RESET;
      return 0;
    }
    case AMDGPU_CTX_OP_GET_STABLE_PSTATE: {
      if (in.flags != 0) return Errno(EINVAL);
      const ContextRef context = contexts_.find(in.ctx_id);
      if (!context) return Errno(EINVAL);
      args.out = {};
      args.out.pstate.flags = context->stable_pstate;
      return 0;
    }
    case AMDGPU_CTX_OP_SET_STABLE_PSTATE: {
      if ((in.flags & ~AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK) != 0) return Errno(EINVAL);
      const std::uint32_t state = in.flags & AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK;
      if (state > AMDGPU_CTX_STABLE_PSTATE_PEAK) return Errno(EINVAL);
      const ContextRef context = contexts_.find(in.ctx_id);
      if (!context) return Errno(EINVAL);
      context->stable_pstate = state;
      return 0;
    }
    default:
      return Errno(EINVAL);
  }
}

Outcome AmdgpuFile::sched(Call& call, drm_amdgpu_sched& args) {
  if (args.in.op != AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE &&
      args.in.op != AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE) {
    return Errno(EINVAL);
  }
  if (!is_known_priority(args.in.priority)) return Errno(EINVAL);
  const Result<FileRef> other =
      call.machine().files().by_client_fd(call.client(), static_cast<int>(args.in.fd));
  auto* file = other ? dynamic_cast<AmdgpuFile*>(other.value().get()) : nullptr;
  if (file == nullptr) return Errno(EINVAL);
  if (args.in.op == AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE && !file->contexts().find(args.in.ctx_id)) {
    return Errno(EINVAL);
  }
  return 0;
}

Outcome AmdgpuFile::vm_ioctl(Call&, drm_amdgpu_vm& args) {
  if (args.in.flags != 0) return Errno(EINVAL);
  const bool known = args.in.op == AMDGPU_VM_OP_RESERVE_VMID || args.in.op == AMDGPU_VM_OP_UNRESERVE_VMID;
  return known ? Outcome(0) : Errno(EINVAL);
}

}  // namespace understudy::kfd
