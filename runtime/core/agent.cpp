#include "runtime/core/agent.h"

namespace hsa_rt {
namespace {

// Marks in the upper half keep a handle of one kind from passing for another.
constexpr uint64_t kAgentMark = uint64_t{0xA6E7} << 48;
constexpr uint64_t kPoolMark = uint64_t{0x900A} << 48;
constexpr uint64_t kMarkMask = uint64_t{0xFFFF} << 48;
constexpr int kPoolShift = 24;

}  // namespace

hsa_agent_t Agent::handle() const {
  return {kAgentMark | index_};
}

hsa_amd_memory_pool_t Pool::handle() const {
  return {kPoolMark | uint64_t{owner_.index()} << kPoolShift | index_};
}

uint32_t Pool::global_flags() const {
  if (info_.segment != PoolSegment::kGlobal) return 0;
  return (info_.kernarg ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT : 0) |
         (info_.fine_grained ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED : 0) |
         (info_.coarse_grained ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED : 0);
}

AgentDirectory::AgentDirectory(std::span<const std::shared_ptr<Driver>> drivers) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kGpu, DeviceKind::kNpu}) {
    for (const auto& driver : drivers) {
      for (const auto& device : driver->devices()) {
        if (device->info().kind == kind) add(*device);
      }
    }
  }
  // System memory is taken from a device when there is one, so that it can be shared as a dma-buf.
  Device* anchor = nullptr;
  for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNpu}) {
    for (Agent& agent : agents_) {
      if (anchor == nullptr && agent.kind() == kind) anchor = &agent.device();
    }
  }
  for (Agent& agent : agents_) {
    for (const PoolInfo& info : agent.info().pools) {
      const bool system_memory = agent.kind() == DeviceKind::kCpu && info.placement == Placement::kHost;
      agent.add_pool(info, system_memory && anchor != nullptr ? *anchor : agent.device());
    }
  }
}

void AgentDirectory::add(Device& device) {
  agents_.emplace_back(static_cast<uint32_t>(agents_.size()), device);
}

Agent* AgentDirectory::find(hsa_agent_t handle) {
  const uint64_t index = handle.handle & ~kMarkMask;
  if ((handle.handle & kMarkMask) != kAgentMark || index >= agents_.size()) return nullptr;
  return &agents_[index];
}

Pool* AgentDirectory::find(hsa_amd_memory_pool_t handle) {
  const uint64_t position = handle.handle & ~kMarkMask;
  const uint64_t agent_index = position >> kPoolShift;
  const uint64_t pool_index = position & ((uint64_t{1} << kPoolShift) - 1);
  if ((handle.handle & kMarkMask) != kPoolMark || agent_index >= agents_.size()) return nullptr;
  std::deque<Pool>& pools = agents_[agent_index].pools();
  return pool_index < pools.size() ? &pools[pool_index] : nullptr;
}

Agent* AgentDirectory::agent_of(const Device& device) {
  for (Agent& agent : agents_) {
    if (&agent.device() == &device) return &agent;
  }
  return nullptr;
}

Pool* AgentDirectory::pool_of(const Device& device, Placement placement) {
  Pool* same_placement = nullptr;
  for (Agent& agent : agents_) {
    for (Pool& pool : agent.pools()) {
      if (pool.info().segment != PoolSegment::kGlobal || pool.info().placement != placement) continue;
      if (&pool.backing() == &device) return &pool;
      // System memory is the CPU's whichever device handed it out.
      if (placement == Placement::kHost && same_placement == nullptr) same_placement = &pool;
    }
  }
  return same_placement;
}

}  // namespace hsa_rt
