// MappedRange: a piece of a reserved range with memory behind it, and which agents may use it how. The vmem
// table has one per mapping, the allocation table one per pool allocation; a new one is accessible to nobody.
//
// Agents that walk the CPU's page tables (CPUs, and NPUs with shared addressing) are served by one mmap whose
// protection is the union of what they were granted; all others by a DeviceMapping each. What an agent was
// granted is recorded apart from that, so each agent is told what it was given even where hardware cannot
// tell the difference.
//
// Access changes go through AccessChange, which either happens completely or not at all. Not thread-safe; the
// table that owns the range holds its lock.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/core/agent.h"
#include "runtime/core/status.h"
#include "runtime/driver/memory.h"

namespace hsa_rt {

struct AccessRequest {
  Agent* agent = nullptr;
  Permission permission = Permission::kNone;
};

class MappedRange {
 public:
  MappedRange(AddressSpan span, std::shared_ptr<Memory> memory, uint64_t offset)
      : span_(span), memory_(std::move(memory)), offset_(offset) {}
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  const AddressSpan& span() const { return span_; }
  uint64_t offset() const { return offset_; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }

  Permission permission_of(const Agent& agent) const;
  bool cpu_can_read() const { return window_ != Permission::kNone; }
  std::vector<Agent*> agents_with_access() const;
  // Everything granted, and the requests that revoke it all.
  std::vector<AccessRequest> grants() const;
  std::vector<AccessRequest> revoke_all() const;

  // Drops all access and the reference on the memory, whatever the drivers say. For shutdown and failed
  // construction.
  void abandon();
  // Gives up the reference on the memory. Requires that nobody has access any more.
  std::shared_ptr<Memory> take_memory() { return std::move(memory_); }
  void put_memory(std::shared_ptr<Memory> memory) { memory_ = std::move(memory); }

 private:
  friend class AccessChange;

  struct Grant {
    Agent* agent = nullptr;
    Permission permission = Permission::kNone;
    std::unique_ptr<Share> share;
    std::unique_ptr<DeviceMapping> mapping;  // may be null; goes before its share
  };

  Grant* find(const Agent& agent);
  void erase(const Agent& agent);
  Result<void> set_window(Permission permission);

  AddressSpan span_;
  std::shared_ptr<Memory> memory_;
  uint64_t offset_;
  Permission window_ = Permission::kNone;  // protection of the CPU mapping at span_
  std::vector<Grant> grants_;
};

// One change of who may use a range. apply() does the driver's work and undoes it itself on failure; then
// either commit() makes it final or undo() takes it back (because another range of the same call failed).
class AccessChange {
 public:
  // Agents not named keep what they have. An agent named twice gets the last permission.
  AccessChange(MappedRange& range, std::span<const AccessRequest> requests);

  Result<void> apply();
  void undo();
  void commit();

 private:
  enum class Done : uint8_t { kNothing, kStaged, kRepermitted, kRevoked };

  struct Step {
    Agent* agent = nullptr;
    Permission wanted = Permission::kNone;
    Permission before = Permission::kNone;
    Done done = Done::kNothing;
    std::unique_ptr<Share> share;  // staged, for an agent that had no access before
    std::unique_ptr<DeviceMapping> mapping;
  };

  Result<void> grant(Step& step);
  Result<void> revoke(Step& step);
  Permission wanted_window() const;

  MappedRange& range_;
  std::vector<Step> steps_;
  Permission window_before_ = Permission::kNone;
};

}  // namespace hsa_rt
