#include "runtime/core/allocation_table.h"

#include <algorithm>

namespace hsa_rt {
namespace {

bool uses_host_addresses(const Agent& agent) {
  return agent.device().shares_cpu_page_tables();
}

AddressSpan pages_of(const AddressSpan& span) {
  const uint64_t begin = page_floor(span.base);
  return {begin, page_floor(span.end() + kPageBytes - 1) - begin};
}

}  // namespace

Status<void*> AllocationTable::allocate(Pool& pool, uint64_t size, const Options& options) {
  const PoolInfo& info = pool.info();
  AllocationRequest request;
  if (size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!info.allocatable || info.segment != PoolSegment::kGlobal || size > info.size_bytes ||
      !align_up(size, info.granule_bytes, request.size_bytes)) {
    return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  }
  request.placement = info.placement;
  request.fine_grained = info.fine_grained;
  request.executable = options.executable;
  request.contiguous = options.contiguous;
  const std::lock_guard guard(lock_);
  Allocation allocation = TRY(make(pool, request, options.for_all_agents));
  allocation.size = size;
  const uint64_t base = allocation.agent_span.base;
  allocations_.emplace(base, std::move(allocation));
  return reinterpret_cast<void*>(base);
}

Status<AllocationTable::Allocation> AllocationTable::make(Pool& pool, const AllocationRequest& request,
                                                          bool for_all_agents) {
  Allocation allocation;
  allocation.pool = &pool;
  if (request.placement == Placement::kDeviceHeap) {
    allocation.placed_memory =
        TRY(pool.backing().allocate(request).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    allocation.placed_share =
        TRY(pool.backing().attach(allocation.placed_memory).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    allocation.agent_span = {allocation.placed_memory->fixed_address(), request.size_bytes};
    return allocation;
  }
  allocation.range = TRY(BackedRange::allocate(pool.backing(), request, initial_access(pool, for_all_agents))
                             .error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  allocation.agent_span = allocation.range->span();
  return allocation;
}

std::vector<AccessRequest> AllocationTable::initial_access(Pool& pool, bool for_all_agents) {
  std::vector<AccessRequest> access;
  for (Agent& agent : directory_.agents()) {
    const bool owner = &agent == &pool.owner();
    const bool cpu = agent.kind() == DeviceKind::kCpu && pool.info().cpu_visible;
    const bool peer = for_all_agents && &agent.device().driver() == &pool.backing().driver();
    if (owner || cpu || peer) access.push_back({&agent, Permission::kReadWrite});
  }
  return access;
}

Status<void> AllocationTable::free(void* base) {
  Allocation allocation;
  {
    const std::lock_guard guard(lock_);
    const auto found = allocations_.find(reinterpret_cast<uint64_t>(base));
    if (found == allocations_.end() || found->second.kind != AllocationKind::kPool) {
      return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    allocation = std::move(found->second);
    allocations_.erase(found);
  }
  // The callbacks may allocate and free; the memory itself can no longer be found, so not freed twice.
  for (const DeallocationCallback& callback : std::exchange(allocation.callbacks, {})) {
    callback.function(callback.address, callback.user_data);
  }
  const std::lock_guard guard(lock_);
  const Status<void> closed = close(allocation);
  if (!closed) allocations_.emplace(allocation.agent_span.base, std::move(allocation));
  return closed;
}

Status<void> AllocationTable::close(Allocation& allocation) {
  if (allocation.range != nullptr) return or_status(BackedRange::destroy(allocation.range));
  if (allocation.placed_memory != nullptr) {
    allocation.placed_share.reset();
    return or_status(Memory::destroy(allocation.placed_memory));
  }
  return {};
}

Status<void> AllocationTable::close_entry(uint64_t base) {
  const auto entry = allocations_.find(base);
  TRY(close(entry->second));
  allocations_.erase(entry);
  return {};
}

Status<void> AllocationTable::allow_access(const void* base, std::span<Agent* const> agents) {
  const std::lock_guard guard(lock_);
  const auto found = allocations_.find(reinterpret_cast<uint64_t>(base));
  if (found == allocations_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  Allocation& allocation = found->second;
  if (allocation.kind == AllocationKind::kIpc) return {};  // who may use it was settled when it was attached
  if (allocation.kind != AllocationKind::kPool) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (allocation.range == nullptr) {
    const bool only_owner = std::ranges::all_of(agents, [&](const Agent* agent) {
      return agent == &allocation.pool->owner() || agent->kind() == DeviceKind::kCpu;
    });
    if (only_owner) return {};
    return HSA_STATUS_ERROR_INVALID_AGENT;
  }
  std::vector<AccessRequest> requests;
  for (Agent* agent : allocation.range->range().agents_with_access()) {
    if (agent == &allocation.pool->owner() || agent->kind() == DeviceKind::kCpu) continue;
    if (std::ranges::find(agents, agent) == agents.end()) requests.push_back({agent, Permission::kNone});
  }
  for (Agent* agent : agents) {
    if (agent->kind() == DeviceKind::kCpu && !allocation.pool->info().cpu_visible)
      return HSA_STATUS_ERROR_INVALID_AGENT;
    requests.push_back({agent, Permission::kReadWrite});
  }
  return allocation.range->set_access(requests).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

Status<void*> AllocationTable::lock_user_memory(void* host, uint64_t size, std::span<Agent* const> agents) {
  AddressSpan host_span;
  AddressSpan last_page;
  if (!AddressSpan::make(host, size, host_span) ||
      !AddressSpan::make(host_span.end(), kPageBytes, last_page)) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const std::lock_guard guard(lock_);
  const auto [first, last] = locked_.equal_range(host_span.base);
  for (auto entry = first; entry != last; ++entry) {
    Allocation& known = entry->second;
    if (known.host_span.size != size) continue;
    TRY(extend_lock(known, agents));
    ++known.lock_count;
    return known.agent_span.pointer();
  }
  Allocation allocation;
  allocation.kind = AllocationKind::kLocked;
  allocation.host_span = allocation.agent_span = host_span;
  allocation.size = size;
  TRY(extend_lock(allocation, agents));
  void* const agent_address = allocation.agent_span.pointer();
  locked_.emplace(host_span.base, std::move(allocation));
  return agent_address;
}

Status<void> AllocationTable::extend_lock(Allocation& allocation, std::span<Agent* const> agents) {
  const AddressSpan pages = pages_of(allocation.host_span);
  std::vector<AccessRequest> access;
  std::vector<std::pair<Agent*, std::shared_ptr<Memory>>> pinned;
  for (Agent* agent : agents) {
    if (agent->kind() == DeviceKind::kCpu) continue;
    if (!uses_host_addresses(*agent)) {
      access.push_back({agent, Permission::kReadWrite});
      continue;
    }
    const auto same_agent = [&](const auto& pin) { return pin.first == agent; };
    if (std::ranges::any_of(allocation.pinned, same_agent) || std::ranges::any_of(pinned, same_agent))
      continue;
    Result<std::shared_ptr<Memory>> memory = agent->device().register_user_memory(pages, pages.base);
    if (!memory) {
      return memory.error().value == EOPNOTSUPP ? HSA_STATUS_ERROR_INVALID_AGENT
                                                : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    pinned.emplace_back(agent, std::move(memory).value());
  }
  if (!access.empty()) {
    if (allocation.range == nullptr) {
      allocation.range = TRY(BackedRange::register_user_memory(access.front().agent->device(), pages, access)
                                 .error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
      const uint64_t inside_page = allocation.host_span.base - pages.base;
      allocation.agent_span = {allocation.range->span().base + inside_page, allocation.size};
    } else {
      TRY(allocation.range->set_access(access).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    }
  }
  std::ranges::move(pinned, std::back_inserter(allocation.pinned));
  return {};
}

Status<void> AllocationTable::unlock_user_memory(void* host) {
  const std::lock_guard guard(lock_);
  const auto [first, last] = locked_.equal_range(reinterpret_cast<uint64_t>(host));
  if (first == last) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  // Ranges of different length may start at one address; the youngest is taken first.
  const auto entry = std::prev(last);
  if (entry->second.lock_count > 1) {
    --entry->second.lock_count;
    return {};
  }
  TRY(close(entry->second));
  locked_.erase(entry);
  return {};
}

Status<AllocationTable::Imported> AllocationTable::import_dmabuf(AllocationKind kind, int dmabuf_fd,
                                                                 std::span<Agent* const> agents) {
  const std::lock_guard guard(lock_);
  Allocation allocation;
  allocation.kind = kind;
  allocation.range =
      TRY(BackedRange::import(drivers_, dmabuf_fd, {}).error_as(HSA_STATUS_ERROR_INVALID_ARGUMENT));
  allocation.agent_span = allocation.range->span();
  allocation.size = allocation.agent_span.size;
  const Memory& memory = *allocation.range->range().memory();
  allocation.pool = directory_.pool_of(memory.device(), memory.placement());

  std::vector<AccessRequest> access;
  for (Agent* agent : agents) access.push_back({agent, Permission::kReadWrite});
  if (kind == AllocationKind::kIpc) {
    Agent* const owner = directory_.agent_of(memory.device());
    if (agents.empty() && owner != nullptr) access.push_back({owner, Permission::kReadWrite});
    for (Agent& agent : directory_.agents()) {
      const bool cpu = agent.kind() == DeviceKind::kCpu;
      if (cpu && allocation.pool != nullptr && allocation.pool->info().cpu_visible) {
        access.push_back({&agent, Permission::kReadWrite});
      }
    }
  }
  TRY(allocation.range->set_access(access).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  if (kind == AllocationKind::kGraphics) {
    if (Result<std::vector<uint8_t>> metadata = memory.device().driver().dmabuf_metadata(dmabuf_fd)) {
      allocation.metadata = std::move(metadata).value();
    }
  }
  const uint64_t base = allocation.agent_span.base;
  const Allocation& made = allocations_.emplace(base, std::move(allocation)).first->second;
  return Imported{reinterpret_cast<void*>(base), made.size, made.metadata};
}

Status<void> AllocationTable::release_import(AllocationKind kind, void* base) {
  const std::lock_guard guard(lock_);
  const auto found = allocations_.find(reinterpret_cast<uint64_t>(base));
  if (found == allocations_.end() || found->second.kind != kind) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return close_entry(found->first);
}

Status<AllocationTable::Exported> AllocationTable::export_dmabuf(const void* address, uint64_t size,
                                                                 std::optional<uint64_t> expected_serial) {
  AddressSpan span;
  if (!AddressSpan::make(address, size, span)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::lock_guard guard(lock_);
  const Allocation* allocation = find_containing(span.base);
  if (allocation == nullptr || allocation->kind != AllocationKind::kPool ||
      !allocation->agent_span.contains(span)) {
    return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  }
  const Memory& memory = memory_of(*allocation);
  if (expected_serial && memory.serial() != *expected_serial) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  Result<UniqueFd> fd = memory.export_dmabuf();
  if (!fd) return fd.error().value == EOPNOTSUPP ? kErrorNotSupported : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  return Exported{std::move(fd).value(), span.base - allocation->agent_span.base};
}

const Memory& AllocationTable::memory_of(const Allocation& allocation) {
  return allocation.range == nullptr ? *allocation.placed_memory : *allocation.range->range().memory();
}

std::optional<AllocationTable::Description> AllocationTable::describe(const void* pointer) {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  const std::lock_guard guard(lock_);
  const Allocation* allocation = find_containing(address);
  if (allocation == nullptr) return std::nullopt;
  return describe(*allocation);
}

AllocationTable::Description AllocationTable::describe(const Allocation& allocation) {
  Description description;
  description.kind = allocation.kind;
  description.agent_span = allocation.agent_span;
  description.size = allocation.size;
  description.user_data = allocation.user_data;
  description.pool = allocation.pool;
  if (allocation.kind == AllocationKind::kPool) description.memory_serial = memory_of(allocation).serial();
  if (allocation.pool != nullptr) description.owner = &allocation.pool->owner();
  if (allocation.range != nullptr) {
    description.agents = allocation.range->range().agents_with_access();
    if (allocation.range->range().cpu_can_read()) description.host_base = allocation.range->data();
  } else if (allocation.placed_memory != nullptr) {
    description.agents = {description.owner};
    description.host_base = allocation.agent_span.pointer();
  }
  if (allocation.kind == AllocationKind::kLocked) {
    description.host_base = allocation.host_span.pointer();
    for (Agent& agent : directory_.agents()) {
      if (agent.kind() == DeviceKind::kCpu && description.owner == nullptr) description.owner = &agent;
    }
    for (const auto& [agent, memory] : allocation.pinned) description.agents.push_back(agent);
  }
  return description;
}

AllocationTable::Allocation* AllocationTable::find_containing(uint64_t address) {
  if (auto after = allocations_.upper_bound(address); after != allocations_.begin()) {
    Allocation& candidate = std::prev(after)->second;
    if (candidate.agent_span.contains(address)) return &candidate;
  }
  // Locks are few, may overlap, and are found by either of their addresses.
  for (auto& [base, allocation] : locked_) {
    if (allocation.host_span.contains(address) || allocation.agent_span.contains(address)) return &allocation;
  }
  return nullptr;
}

bool AllocationTable::set_user_data(const void* base, void* user_data) {
  const std::lock_guard guard(lock_);
  Allocation* allocation = find_containing(reinterpret_cast<uint64_t>(base));
  if (allocation == nullptr) return false;
  allocation->user_data = user_data;
  return true;
}

Status<void> AllocationTable::add_deallocation_callback(void* address,
                                                        hsa_amd_deallocation_callback_t callback,
                                                        void* user_data) {
  const std::lock_guard guard(lock_);
  Allocation* allocation = find_containing(reinterpret_cast<uint64_t>(address));
  if (allocation == nullptr || allocation->kind != AllocationKind::kPool)
    return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  allocation->callbacks.push_back({address, callback, user_data});
  return {};
}

Status<void> AllocationTable::remove_deallocation_callback(void* address,
                                                           hsa_amd_deallocation_callback_t callback) {
  const std::lock_guard guard(lock_);
  Allocation* allocation = find_containing(reinterpret_cast<uint64_t>(address));
  if (allocation == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const size_t removed = std::erase_if(allocation->callbacks, [&](const DeallocationCallback& entry) {
    return entry.address == address && entry.function == callback;
  });
  if (removed == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return {};
}

}  // namespace hsa_rt
