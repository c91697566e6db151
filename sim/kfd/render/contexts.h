// Contexts: command-submission contexts of one render file, each with the fences of its rings.
//
// Owner: AmdgpuFile. Units: sequence numbers count from 1 per ring. Errors: EINVAL for an unknown id.
// Thread-safety: locks itself. Mirrors: amdgpu_ctx.c: struct amdgpu_ctx_mgr, amdgpu_ctx_add_fence,
// amdgpu_ctx_get_fence.
#pragma once

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
  explicit Context(std::int32_t priority) : priority_(priority) {}

  std::int32_t priority() const { return priority_; }
  // Numbers the fence on its ring.
  std::uint64_t add_fence(RingId ring, const drm::FenceRef& fence);
  // EINVAL: not submitted yet; null: so long ago that it is forgotten, i.e. signalled. ~0 is the latest.
  Result<drm::FenceRef> fence(RingId ring, std::uint64_t sequence) const;

  std::uint32_t stable_pstate = 0;
  std::uint32_t hangs = 0;

 private:
  // amdgpu_sched_jobs: fences kept per ring.
  static constexpr std::size_t kFencesKept = 32;
  struct Ring {
    std::uint64_t last_sequence = 0;
    std::map<std::uint64_t, drm::FenceRef> fences;
  };
  const std::int32_t priority_;
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
