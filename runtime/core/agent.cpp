#include "runtime/core/agent.h"

namespace hsa_rt {
namespace {

// Marks in the upper half keep a handle of one kind from passing for another.
constexpr uint64_t kAgentMark = uint64_t{0xA6E7} << 48;
constexpr uint64_t kPoolMark = uint64_t{0x900A} << 48;
constexpr uint64_t kIsaMark = uint64_t{0x15A0} << 48;
constexpr uint64_t kCacheMark = uint64_t{0xCAC4} << 48;
constexpr uint64_t kMarkMask = uint64_t{0xFFFF} << 48;
constexpr int kAgentShift = 24;

}  // namespace

hsa_agent_t Agent::handle() const {
  return {kAgentMark | index_};
}

hsa_amd_memory_pool_t Pool::handle() const {
  return {kPoolMark | uint64_t{owner_.index()} << kAgentShift | index_};
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
  const DeviceInfo& info = device.info();
  for (const std::string& name : info.isa_names) {
    if (!isa_named(name)) isas_.push_back({name, info.wavefront_size, info.fast_f16});
  }
}

const Isa* AgentDirectory::find(hsa_isa_t handle) const {
  const uint64_t index = handle.handle & ~kMarkMask;
  return (handle.handle & kMarkMask) == kIsaMark && index < isas_.size() ? &isas_[index] : nullptr;
}

std::optional<hsa_isa_t> AgentDirectory::isa_named(std::string_view name) const {
  for (size_t i = 0; i < isas_.size(); ++i) {
    if (isas_[i].name == name) return hsa_isa_t{kIsaMark | i};
  }
  return std::nullopt;
}

hsa_cache_t AgentDirectory::cache_handle(const Agent& agent, size_t position) {
  return {kCacheMark | uint64_t{agent.index()} << kAgentShift | position};
}

const CacheInfo* AgentDirectory::find(hsa_cache_t handle, Agent** agent) {
  const uint64_t position = handle.handle & ~kMarkMask;
  const uint64_t agent_index = position >> kAgentShift;
  const uint64_t cache_index = position & ((uint64_t{1} << kAgentShift) - 1);
  if ((handle.handle & kMarkMask) != kCacheMark || agent_index >= agents_.size()) return nullptr;
  *agent = &agents_[agent_index];
  const std::vector<CacheInfo>& caches = (*agent)->info().caches;
  return cache_index < caches.size() ? &caches[cache_index] : nullptr;
}

Agent* AgentDirectory::find(hsa_agent_t handle) {
  const uint64_t index = handle.handle & ~kMarkMask;
  if ((handle.handle & kMarkMask) != kAgentMark || index >= agents_.size()) return nullptr;
  return &agents_[index];
}

Pool* AgentDirectory::find(hsa_amd_memory_pool_t handle) {
  const uint64_t position = handle.handle & ~kMarkMask;
  const uint64_t agent_index = position >> kAgentShift;
  const uint64_t pool_index = position & ((uint64_t{1} << kAgentShift) - 1);
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

Pool* AgentDirectory::system_pool() {
  for (Agent& agent : agents_) {
    if (agent.kind() != DeviceKind::kCpu) continue;
    for (Pool& pool : agent.pools()) {
      if (pool.info().fine_grained && pool.info().placement == Placement::kHost) return &pool;
    }
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
