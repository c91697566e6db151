// Contexts: command-submission contexts of one render file, each with the fences of its rings.
//
// Owner: AmdgpuFile. Units: sequence numbers count from 1 per ring. Errors: EINVAL for an unknown id.
// Thread-safety: locks itself. Mirrors: amdgpu_ctx.c: struct amdgpu_ctx_mgr, amdgpu_ctx_add_fence,
// amdgpu_ctx_get_fence.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "sim/core/ledger.h"
#include "sim/core/result.h"
#include "sim/drm/fence.h"

namespace understudy::kfd {

struct RingId {
  std::uint32_t ip_type = 0;
  std::uint32_t ip_instance = 0;
  std::uint32_t ring = 0;
  auto operator<=>(const RingId&) const = default;
};

class Context {
 public:
  // What the GPU's counters of resets and VRAM losses showed when the context was made.
  Context(std::int32_t priority, std::uint32_t resets, std::uint32_t vram_losses)
      : resets_seen(resets), priority_(priority), resets_(resets), vram_losses_(vram_losses) {}

  std::int32_t priority() const { return priority_; }
  // Numbers the fence on its ring.
  std::uint64_t add_fence(RingId ring, const drm::FenceRef& fence);
  // EINVAL: not submitted yet; null: so long ago that it is forgotten, i.e. signalled. ~0 is the latest.
  Result<drm::FenceRef> fence(RingId ring, std::uint64_t sequence) const;

  std::uint32_t stable_pstate = 0;
  std::uint32_t hangs = 0;
  std::atomic<std::uint32_t> resets_seen;  // by the last QUERY_STATE

  // AMDGPU_CTX_QUERY2_FLAGS_*, given the counters as they are now.
  std::uint64_t loss_flags(std::uint32_t resets, std::uint32_t vram_losses) const;

 private:
  // amdgpu_sched_jobs: fences kept per ring.
  static constexpr std::size_t kFencesKept = 32;
  struct Ring {
    std::uint64_t last_sequence = 0;
    std::map<std::uint64_t, drm::FenceRef> fences;
  };
  const std::int32_t priority_;
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
  bool remove(std::uint32_t id);
  void clear();

 private:
  struct Slot {
    ContextRef context;
    LedgerEntry entry;
  };
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Slot> slots_;  // guarded by mutex_
};

}  // namespace understudy::kfd
