// Memory that has one address for its whole life: pool allocations, locked user memory, buffers mapped from
// other processes or other drivers. (Memory that is mapped freely is the vmem table's.)
//
// One lock covers the table; it is held during driver calls, so that a buffer cannot be freed while it is
// being shared. Deallocation callbacks run without it.
#pragma once

#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/core/agent.h"
#include "runtime/core/backed_range.h"
#include "runtime/core/status.h"

namespace hsa_rt {

enum class AllocationKind : uint8_t { kPool, kLocked, kGraphics, kIpc };

class AllocationTable {
 public:
  AllocationTable(AgentDirectory& directory, std::span<const std::shared_ptr<Driver>> drivers)
      : directory_(directory), drivers_(drivers) {}

  struct Options {
    bool executable = false;
    bool contiguous = false;
    bool for_all_agents = false;  // accessible to every agent that can be given access, not only to the owner
  };
  Status<void*> allocate(Pool& pool, uint64_t size, const Options& options);
  // Frees a pool allocation by its base. INVALID_ALLOCATION for anything else.
  Status<void> free(void* base);
  // Exactly these agents, the owner and the CPU may use the pool allocation from now on.
  Status<void> allow_access(const void* base, std::span<Agent* const> agents);

  // Makes [host, host + size) usable by `agents`; the result is where they see it. Locking the same range
  // again nests.
  Status<void*> lock_user_memory(void* host, uint64_t size, std::span<Agent* const> agents);
  Status<void> unlock_user_memory(void* host);

  // A dma-buf mapped for `agents` (and the CPU with kIpc).
  struct Imported {
    void* base = nullptr;
    uint64_t size = 0;
    std::span<const uint8_t> metadata;  // lives as long as the allocation
  };
  Status<Imported> import_dmabuf(AllocationKind kind, int dmabuf_fd, std::span<Agent* const> agents);
  Status<void> release_import(AllocationKind kind, void* base);

  struct Exported {
    UniqueFd fd;
    uint64_t offset = 0;
  };
  // Of a pool allocation that holds all of [address, address + size). With `expected_serial`, only if it is
  // still that memory.
  Status<Exported> export_dmabuf(const void* address, uint64_t size,
                                 std::optional<uint64_t> expected_serial = std::nullopt);

  struct Description {
    AllocationKind kind = AllocationKind::kPool;
    AddressSpan agent_span;           // where agents see it
    const void* host_base = nullptr;  // where the CPU sees it; null if it does not
    uint64_t size = 0;                // as it was asked for
    void* user_data = nullptr;
    Pool* pool = nullptr;
    Agent* owner = nullptr;
    std::vector<Agent*> agents;
    uint64_t memory_serial = 0;  // kPool
  };
  std::optional<Description> describe(const void* address);
  bool set_user_data(const void* base, void* user_data);

  Status<void> add_deallocation_callback(void* address, hsa_amd_deallocation_callback_t callback,
                                         void* user_data);
  Status<void> remove_deallocation_callback(void* address, hsa_amd_deallocation_callback_t callback);

 private:
  struct DeallocationCallback {
    void* address;
    hsa_amd_deallocation_callback_t function;
    void* user_data;
  };

  struct Allocation {
    AllocationKind kind = AllocationKind::kPool;
    AddressSpan agent_span;
    uint64_t size = 0;
    Pool* pool = nullptr;
    std::unique_ptr<BackedRange> range;     // null for memory that the driver placed itself
    std::shared_ptr<Memory> placed_memory;  // set for such memory
    std::unique_ptr<Share> placed_share;
    AddressSpan host_span;  // kLocked: what the user locked, to the byte
    uint64_t lock_count = 1;
    // kLocked: registrations with devices on the CPU's page tables. They use the user's addresses, so there
    // is no range.
    std::vector<std::pair<Agent*, std::shared_ptr<Memory>>> pinned;
    std::vector<uint8_t> metadata;  // kGraphics
    void* user_data = nullptr;
    std::vector<DeallocationCallback> callbacks;
  };

  static const Memory& memory_of(const Allocation& allocation);
  Allocation* find_containing(uint64_t address);
  Status<Allocation> make(Pool& pool, const AllocationRequest& request, bool for_all_agents);
  std::vector<AccessRequest> initial_access(Pool& pool, bool for_all_agents);
  // What the agents of a lock need beyond what `allocation` already has.
  Status<void> extend_lock(Allocation& allocation, std::span<Agent* const> agents);
  Status<void> close(Allocation& allocation);
  // Takes the entry out of the table for good if closing it works; otherwise it stays.
  Status<void> close_entry(uint64_t base);
  Description describe(const Allocation& allocation);

  AgentDirectory& directory_;
  const std::span<const std::shared_ptr<Driver>> drivers_;
  std::mutex lock_;
  std::map<uint64_t, Allocation> allocations_;  // by agent_span.base
  std::multimap<uint64_t, Allocation> locked_;  // kLocked, by host_span.base
};

}  // namespace hsa_rt
