// Contexts: command-submission contexts of one render file, each with the fences of its rings.
//
// Owner: AmdgpuFile; jobs in flight hold their context. Units: sequence numbers count from 1 per ring.
// Errors: EINVAL for an unknown id. Thread-safety: locks itself. Mirrors: amdgpu_ctx.c: struct amdgpu_ctx,
// struct amdgpu_ctx_mgr, amdgpu_ctx_add_fence, amdgpu_ctx_get_fence.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/ledger.h"
#include "sim/core/result.h"
#include "sim/drm/fence.h"
#include "sim/kfd/render/rings.h"

namespace understudy::kfd {

class Context {
 public:
  // What the GPU's counters of resets and VRAM losses showed when the context was made.
  Context(std::uint32_t resets, std::uint32_t vram_losses)
      : resets_seen_(resets), resets_(resets), vram_losses_(vram_losses) {}

  // Makes the fence of the next job on a ring.
  struct Submitted {
    drm::FenceRef fence;
    std::uint64_t sequence = 0;
    drm::FenceRef previous;  // of the job before on the same ring; null: none, or long done
  };
  Submitted submit(const RingId& ring);
  // EINVAL: not submitted yet; null: so long ago that it is forgotten, or never anything, i.e. signalled. ~0
  // is the latest.
  Result<drm::FenceRef> fence(const RingId& ring, std::uint64_t sequence) const;

  // A job of this context was lost: it takes no more work, and says so once asked.
  void mark_guilty() { guilty_.store(true); }
  bool guilty() const { return guilty_.load(); }

  // QUERY_STATE tells of each reset, and of each loss, once.
  bool take_unreported_loss(std::uint32_t resets) {
    const bool is_new_reset = resets_seen_.exchange(resets) != resets;
    return (guilty() && !loss_reported_.exchange(true)) || is_new_reset;
  }
  // AMDGPU_CTX_QUERY2_FLAGS_*, given the counters as they are now.
  std::uint64_t loss_flags(std::uint32_t resets, std::uint32_t vram_losses) const;

 private:
  // amdgpu_sched_jobs: fences remembered per ring once they have signalled.
  static constexpr std::size_t kFencesKept = 32;
  struct Ring {
    std::uint64_t fence_context = drm::Fence::allocate_contexts(1);
    std::uint64_t last_sequence = 0;
    std::map<std::uint64_t, drm::FenceRef> fences;
  };
  std::atomic<bool> guilty_{false};
  std::atomic<bool> loss_reported_{false};
  std::atomic<std::uint32_t> resets_seen_;
  const std::uint32_t resets_;
  const std::uint32_t vram_losses_;
  mutable std::mutex mutex_;
  std::map<RingId, Ring> rings_;  // guarded by mutex_
};

using ContextRef = std::shared_ptr<Context>;

class Contexts {
 public:
  // Ids from 1, lowest free first.
  std::uint32_t add(ContextRef context, LedgerEntry entry);
  ContextRef find(std::uint32_t id) const;  // null when unknown
  ContextRef remove(std::uint32_t id);      // null when unknown
  std::vector<ContextRef> clear();

 private:
  struct Slot {
    ContextRef context;
    LedgerEntry entry;
  };
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Slot> slots_;  // guarded by mutex_
};

}  // namespace understudy::kfd
