// Agents and memory pools: what HSA calls the devices and their memories. Both are made once, at hsa_init,
// from what the drivers report, and do not change until the last hsa_shut_down; hence no lock. Their handles
// are positions, checked on every use, never addresses.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/driver/driver.h"

namespace hsa_rt {

class Agent;

class Pool {
 public:
  Pool(Agent& owner, uint32_t index, PoolInfo info, Device& backing)
      : owner_(owner), index_(index), info_(info), backing_(backing) {}

  Agent& owner() const { return owner_; }
  const PoolInfo& info() const { return info_; }
  // The device that allocates for this pool: the owner's own, or for system memory one whose memory others
  // can import.
  Device& backing() const { return backing_; }
  hsa_amd_memory_pool_t handle() const;
  uint32_t global_flags() const;

 private:
  Agent& owner_;
  const uint32_t index_;
  const PoolInfo info_;
  Device& backing_;
};

class Agent {
 public:
  Agent(uint32_t index, Device& device) : index_(index), device_(device) {}
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  uint32_t index() const { return index_; }
  Device& device() const { return device_; }
  const DeviceInfo& info() const { return device_.info(); }
  DeviceKind kind() const { return info().kind; }
  hsa_agent_t handle() const;

  std::deque<Pool>& pools() { return pools_; }
  void add_pool(const PoolInfo& info, Device& backing) {
    pools_.emplace_back(*this, static_cast<uint32_t>(pools_.size()), info, backing);
  }

 private:
  const uint32_t index_;
  Device& device_;
  std::deque<Pool> pools_;
};

// An instruction set, shared by all agents that have it.
struct Isa {
  std::string name;
  uint32_t wavefront_size = 0;
  bool fast_f16 = false;
};

// All agents of the machine: CPUs, then GPUs, then NPUs.
class AgentDirectory {
 public:
  explicit AgentDirectory(std::span<const std::shared_ptr<Driver>> drivers);

  std::deque<Agent>& agents() { return agents_; }

  Agent* find(hsa_agent_t handle);
  Pool* find(hsa_amd_memory_pool_t handle);
  const Isa* find(hsa_isa_t handle) const;
  std::optional<hsa_isa_t> isa_named(std::string_view name) const;
  // The caches of an agent are numbered; a handle carries both.
  static hsa_cache_t cache_handle(const Agent& agent, size_t position);
  const CacheInfo* find(hsa_cache_t handle, Agent** agent);
  Agent* agent_of(const Device& device);
  // Fine-grained system memory; null on a machine without CPU agents.
  Pool* system_pool();
  // The pool an object of this device and placement would have come from; nullptr if this machine shows none.
  Pool* pool_of(const Device& device, Placement placement);

 private:
  void add(Device& device);

  std::deque<Agent> agents_;
  std::vector<Isa> isas_;
};

}  // namespace hsa_rt
