// CTX, SCHED and VM. Mirrors amdgpu_ctx.c, amdgpu_sched.c, amdgpu_vm.c: amdgpu_vm_ioctl.
#include "sim/kfd/render/contexts.h"

#include <linux/capability.h>

#include <algorithm>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

bool is_known_priority(std::int32_t priority) {
  constexpr std::int32_t kKnown[] = {
      AMDGPU_CTX_PRIORITY_VERY_LOW, AMDGPU_CTX_PRIORITY_LOW,       AMDGPU_CTX_PRIORITY_NORMAL,
      AMDGPU_CTX_PRIORITY_HIGH,     AMDGPU_CTX_PRIORITY_VERY_HIGH,
  };
  return std::find(std::begin(kKnown), std::end(kKnown), priority) != std::end(kKnown);
}

}  // namespace

Context::Submitted Context::submit(const RingId& id) {
  const std::lock_guard lock(mutex_);
  Ring& ring = rings_[id];
  Submitted submitted;
  if (!ring.fences.empty()) submitted.previous = ring.fences.rbegin()->second;
  submitted.sequence = ++ring.last_sequence;
  submitted.fence =
      std::make_shared<drm::Fence>("drm_sched", ring_name(id), ring.fence_context, submitted.sequence);
  ring.fences[submitted.sequence] = submitted.fence;
  while (ring.fences.size() > kFencesKept && ring.fences.begin()->second->is_signalled()) {
    ring.fences.erase(ring.fences.begin());
  }
  return submitted;
}

Result<drm::FenceRef> Context::fence(const RingId& ring, std::uint64_t sequence) const {
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
  std::uint64_t flags = guilty() ? AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_GUILTY : 0;
  if (resets != resets_) flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET;
  if (vram_losses != vram_losses_) flags |= AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
  return flags;
}

std::uint32_t Contexts::add(ContextRef context, LedgerEntry entry) {
  const std::lock_guard lock(mutex_);
  std::uint32_t id = 1;
  for (const auto& [taken, slot] : slots_) {
    if (taken != id) break;
    ++id;
  }
  slots_[id] = {std::move(context), std::move(entry)};
  return id;
}

ContextRef Contexts::find(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(id);
  return found == slots_.end() ? nullptr : found->second.context;
}

ContextRef Contexts::remove(std::uint32_t id) {
  std::map<std::uint32_t, Slot>::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = slots_.extract(id);
  return removed ? removed.mapped().context : nullptr;
}

std::vector<ContextRef> Contexts::clear() {
  std::map<std::uint32_t, Slot> slots;
  {
    const std::lock_guard lock(mutex_);
    slots.swap(slots_);
  }
  std::vector<ContextRef> contexts;
  for (auto& [id, slot] : slots) contexts.push_back(std::move(slot.context));
  return contexts;
}

Outcome AmdgpuFile::ctx(Call& call, drm_amdgpu_ctx& args) {
  const auto in = args.in;
  // Garbage in the field is tolerated for old user space.
  const std::int32_t priority = is_known_priority(in.priority) ? in.priority : AMDGPU_CTX_PRIORITY_NORMAL;
  if (in.op < AMDGPU_CTX_OP_ALLOC_CTX || in.op > AMDGPU_CTX_OP_SET_STABLE_PSTATE) return Errno(EINVAL);
  const bool takes_flags = in.op == AMDGPU_CTX_OP_SET_STABLE_PSTATE;
  if ((in.flags & ~(takes_flags ? AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK : 0u)) != 0) return Errno(EINVAL);

  if (in.op == AMDGPU_CTX_OP_ALLOC_CTX) {
    if (priority > static_cast<std::int32_t>(AMDGPU_CTX_PRIORITY_NORMAL) &&
        !call.client().has_capability(CAP_SYS_NICE) && !primary().is_current_master()) {
      args.out.alloc.ctx_id = in.ctx_id;
      return Errno(EACCES);
    }
    args.out.alloc.ctx_id =
        contexts_.add(std::make_shared<Context>(gpu().reset_count(), gpu().vram_lost_count()),
                      call.machine().ledger().open(ObjectKind::kContext, &call, "context on " + label()));
    return 0;
  }
  if (in.op == AMDGPU_CTX_OP_FREE_CTX) {
    const ContextRef context = contexts_.remove(in.ctx_id);
    if (!context) return Errno(EINVAL);
    gpu().stable_pstate().context_gone(*context);
    return 0;
  }

  if (takes_flags && in.flags > AMDGPU_CTX_STABLE_PSTATE_PEAK) return Errno(EINVAL);
  const ContextRef context = contexts_.find(in.ctx_id);
  if (!context) return Errno(EINVAL);
  switch (in.op) {
    case AMDGPU_CTX_OP_QUERY_STATE:
      args.out.state.flags = 0;
      args.out.state.hangs = 0;
      args.out.state.reset_status =
          context->take_unreported_loss(gpu().reset_count()) ? AMDGPU_CTX_UNKNOWN_RESET : AMDGPU_CTX_NO_RESET;
      return 0;
    case AMDGPU_CTX_OP_QUERY_STATE2:
      args.out.state.flags = context->loss_flags(gpu().reset_count(), gpu().vram_lost_count());
      args.out.state.hangs = 0;
      return 0;
    case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
      args.out.pstate.flags = gpu().stable_pstate().level();
      return 0;
    default:
      return gpu().stable_pstate().set(*context, in.flags);
  }
}

Outcome AmdgpuFile::sched(Call& call, drm_amdgpu_sched& args) {
  const auto& in = args.in;
  if (in.op != AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE &&
      in.op != AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE) {
    return Errno(EINVAL);
  }
  if (!is_known_priority(in.priority)) return Errno(EINVAL);
  const Result<FileRef> other = call.machine().files().by_client_fd(call.client(), static_cast<int>(in.fd));
  auto* file = other ? dynamic_cast<AmdgpuFile*>(other.value().get()) : nullptr;
  if (file == nullptr) return Errno(EINVAL);
  if (in.op == AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE && !file->contexts().find(in.ctx_id))
    return Errno(EINVAL);
  // Priorities change nothing here: every job gets its turn.
  return 0;
}

Outcome AmdgpuFile::vm_ioctl(Call&, drm_amdgpu_vm& args) {
  if (args.in.flags != 0) return Errno(EINVAL);
  const bool known = args.in.op == AMDGPU_VM_OP_RESERVE_VMID || args.in.op == AMDGPU_VM_OP_UNRESERVE_VMID;
  return known ? Outcome(0) : Errno(EINVAL);
}

}  // namespace understudy::kfd
