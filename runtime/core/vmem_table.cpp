#include "runtime/core/vmem_table.h"

#include <mutex>

namespace hsa_rt {

VmemTable::~VmemTable() {
  // Mappings go before the memories they use, memories before the drivers (which the owner of this table
  // keeps).
  for (auto& [base, mapping] : mappings_) mapping.range.abandon();
  mappings_.clear();
}

Status<void*> VmemTable::reserve(uint64_t size, uint64_t hint, uint64_t alignment) {
  if (alignment == 0) alignment = kPageBytes;
  if (size == 0 || !is_page_multiple(size)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (alignment < kPageBytes || !is_power_of_two(alignment)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  ReservedRange range =
      TRY(ReservedRange::reserve(size, alignment, hint).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  const uint64_t base = range.span().base;
  const std::unique_lock guard(lock_);
  reservations_.emplace(base, Reservation{std::move(range)});
  return reinterpret_cast<void*>(base);
}

Status<void> VmemTable::free(void* base, uint64_t size) {
  const std::unique_lock guard(lock_);
  const auto found = reservations_.find(reinterpret_cast<uint64_t>(base));
  if (found == reservations_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (found->second.range.span().size != size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (found->second.use_count != 0) return HSA_STATUS_ERROR_RESOURCE_FREE;
  reservations_.erase(found);
  return {};
}

Status<uint64_t> VmemTable::create(Pool& pool, uint64_t size, hsa_amd_memory_type_t type) {
  const PoolInfo& info = pool.info();
  if (size == 0 || size % info.granule_bytes != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (info.segment != PoolSegment::kGlobal || !info.allocatable) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  // Memory at an address the device chose cannot be mapped at one of the caller's.
  if (info.placement == Placement::kDeviceHeap) return kErrorNotSupported;
  AllocationRequest request;
  request.size_bytes = size;
  request.placement = info.placement;
  request.fine_grained = info.fine_grained;

  const std::unique_lock guard(lock_);
  close_orphans();
  Result<std::shared_ptr<Memory>> memory = pool.backing().allocate(request);
  if (!memory) {
    return memory.error().value == EOPNOTSUPP ? kErrorNotSupported : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  MemoryRecord record;
  record.memory = std::move(memory).value();
  record.pool = &pool;
  record.type = type;
  const uint64_t handle = memories_.insert(pool.backing().driver().id(), std::move(record));
  if (handle == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  return handle;
}

Status<void> VmemTable::release(uint64_t handle) {
  const std::unique_lock guard(lock_);
  MemoryRecord* record = find_alive(handle);
  if (record == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (record->ref_count == 1 && record->use_count == 0) return close_memory(handle);
  --record->ref_count;
  return {};
}

Status<uint64_t> VmemTable::retain(const void* address) {
  const std::unique_lock guard(lock_);
  const auto mapping = mapping_at(reinterpret_cast<uint64_t>(address));
  if (mapping == mappings_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const uint64_t handle = mapping->second.memory_handle;
  ++memories_.find(handle)->ref_count;
  return handle;
}

Status<void> VmemTable::map(void* base, uint64_t size, uint64_t offset, uint64_t handle) {
  AddressSpan span;
  if (!AddressSpan::make(base, size, span) || !is_page_multiple(span.base) || !is_page_multiple(size) ||
      !is_page_multiple(offset)) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const std::unique_lock guard(lock_);
  Reservation* reservation = reservation_of(span);
  if (reservation == nullptr || overlaps_mapping(span)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  MemoryRecord* record = find_alive(handle);
  if (record == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, size, &end) || end > record->memory->size_bytes()) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  mappings_.try_emplace(span.base, span, record->memory, offset, handle, *reservation);
  ++record->use_count;
  ++reservation->use_count;
  return {};
}

Status<void> VmemTable::unmap(void* base, uint64_t size) {
  AddressSpan span;
  if (!AddressSpan::make(base, size, span)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::unique_lock guard(lock_);
  const std::vector<Mapping*> mappings = TRY(tile(span));
  std::vector<std::vector<AccessRequest>> requests;
  requests.reserve(mappings.size());
  for (const Mapping* mapping : mappings) requests.push_back(mapping->range.revoke_all());
  TRY(change_access(mappings, requests));

  for (Mapping* mapping : mappings) {
    const uint64_t handle = mapping->memory_handle;
    --mapping->reservation.use_count;
    mappings_.erase(mapping->range.span().base);
    MemoryRecord* record = memories_.find(handle);
    if (--record->use_count == 0 && record->ref_count == 0 && !close_memory(handle))
      orphans_.push_back(handle);
  }
  return {};
}

Status<void> VmemTable::set_access(void* base, uint64_t size, std::span<const AccessRequest> requests) {
  AddressSpan span;
  if (!AddressSpan::make(base, size, span)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::unique_lock guard(lock_);
  if (reservation_of(span) == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::vector<Mapping*> mappings = TRY(tile(span));
  const std::vector<std::vector<AccessRequest>> same_for_all(mappings.size(),
                                                             {requests.begin(), requests.end()});
  return change_access(mappings, same_for_all);
}

Status<Permission> VmemTable::get_access(const void* address, const Agent& agent) const {
  const std::shared_lock guard(lock_);
  const auto mapping = mapping_at(reinterpret_cast<uint64_t>(address));
  if (mapping == mappings_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  return mapping->second.range.permission_of(agent);
}

Status<void> VmemTable::allow_access(const void* address, std::span<Agent* const> agents) {
  const std::unique_lock guard(lock_);
  const auto mapping = mapping_at(reinterpret_cast<uint64_t>(address));
  if (mapping == mappings_.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  std::vector<std::vector<AccessRequest>> requests(1);
  for (Agent* agent : agents) requests[0].push_back({agent, Permission::kReadWrite});
  Mapping* const only = &mapping->second;
  return change_access({&only, 1}, requests);
}

Status<UniqueFd> VmemTable::export_dmabuf(uint64_t handle) {
  const std::unique_lock guard(lock_);
  MemoryRecord* record = find_alive(handle);
  if (record == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  Result<UniqueFd> fd = record->memory->export_dmabuf();
  if (!fd) return fd.error().value == EOPNOTSUPP ? kErrorNotSupported : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  remember_identity(handle, fd.value().get());
  return std::move(fd).value();
}

Status<uint64_t> VmemTable::import_dmabuf(int dmabuf_fd) {
  const std::unique_lock guard(lock_);
  const BufferIdentity identity =
      TRY(BufferIdentity::of(dmabuf_fd).error_as(HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS));
  if (const auto known = handle_by_identity_.find(identity); known != handle_by_identity_.end()) {
    ++memories_.find(known->second)->ref_count;
    return known->second;
  }
  for (const auto& driver : drivers_) {
    Result<std::shared_ptr<Memory>> memory = driver->import_dmabuf(dmabuf_fd, 0);
    if (!memory) {
      if (memory.error().value == ENODEV) continue;
      return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
    }
    MemoryRecord record;
    record.memory = std::move(memory).value();
    record.pool = directory_.pool_of(record.memory->device(), record.memory->placement());
    const uint64_t handle = memories_.insert(driver->id(), std::move(record));
    if (handle == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    remember_identity(handle, dmabuf_fd);
    return handle;
  }
  return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
}

Status<VmemTable::Properties> VmemTable::properties(uint64_t handle) const {
  const std::shared_lock guard(lock_);
  const MemoryRecord* record = find_alive(handle);
  if (record == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  return Properties{record->pool, record->type};
}

std::optional<VmemTable::AddressInfo> VmemTable::describe(const void* pointer) const {
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  const std::shared_lock guard(lock_);
  if (const auto mapping = mapping_at(address); mapping != mappings_.end()) {
    const MappedRange& range = mapping->second.range;
    return AddressInfo{range.span(), memories_.find(mapping->second.memory_handle)->pool,
                       range.agents_with_access(), range.cpu_can_read()};
  }
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return std::nullopt;
  const AddressSpan& span = std::prev(after)->second.range.span();
  if (!span.contains(address)) return std::nullopt;
  return AddressInfo{span, nullptr, {}, false};
}

VmemTable::Reservation* VmemTable::reservation_of(const AddressSpan& span) {
  auto after = reservations_.upper_bound(span.base);
  if (after == reservations_.begin()) return nullptr;
  Reservation& candidate = std::prev(after)->second;
  return candidate.range.span().contains(span) ? &candidate : nullptr;
}

VmemTable::Mappings::const_iterator VmemTable::mapping_at(uint64_t address) const {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto candidate = std::prev(after);
  return candidate->second.range.span().contains(address) ? candidate : mappings_.end();
}

VmemTable::Mappings::iterator VmemTable::mapping_at(uint64_t address) {
  const auto found = std::as_const(*this).mapping_at(address);
  return found == mappings_.cend() ? mappings_.end() : mappings_.find(found->first);
}

bool VmemTable::overlaps_mapping(const AddressSpan& span) const {
  const auto next = mappings_.lower_bound(span.base);
  if (next != mappings_.end() && next->second.range.span().overlaps(span)) return true;
  return next != mappings_.begin() && std::prev(next)->second.range.span().overlaps(span);
}

Status<std::vector<VmemTable::Mapping*>> VmemTable::tile(const AddressSpan& span) {
  std::vector<Mapping*> mappings;
  uint64_t next = span.base;
  for (auto at = mappings_.find(next); at != mappings_.end() && at->first == next && next < span.end();
       ++at) {
    mappings.push_back(&at->second);
    next = at->second.range.span().end();
  }
  if (next != span.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  return mappings;
}

VmemTable::MemoryRecord* VmemTable::find_alive(uint64_t handle) const {
  MemoryRecord* record = memories_.find(handle);
  return record != nullptr && record->ref_count > 0 ? record : nullptr;
}

Status<void> VmemTable::change_access(std::span<Mapping* const> mappings,
                                      std::span<const std::vector<AccessRequest>> requests) {
  std::vector<AccessChange> changes;
  changes.reserve(mappings.size());
  for (size_t i = 0; i < mappings.size(); ++i) {
    changes.emplace_back(mappings[i]->range, requests[i]);
    const Result<void> applied = changes.back().apply();
    if (applied) continue;
    changes.pop_back();
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) change->undo();
    return status_of(applied.error());
  }
  for (AccessChange& change : changes) change.commit();
  return {};
}

Status<void> VmemTable::close_memory(uint64_t handle) {
  MemoryRecord* record = memories_.find(handle);
  TRY(or_status(Memory::destroy(record->memory)));
  if (record->identity) handle_by_identity_.erase(*record->identity);
  memories_.erase(handle);
  return {};
}

void VmemTable::close_orphans() {
  std::erase_if(orphans_, [this](uint64_t handle) {
    const MemoryRecord* record = memories_.find(handle);
    return record == nullptr || record->ref_count != 0 || record->use_count != 0 || close_memory(handle);
  });
}

void VmemTable::remember_identity(uint64_t handle, int dmabuf_fd) {
  MemoryRecord* record = memories_.find(handle);
  if (record->identity) return;
  const Result<BufferIdentity> identity = BufferIdentity::of(dmabuf_fd);
  if (identity && handle_by_identity_.emplace(identity.value(), handle).second)
    record->identity = identity.value();
}

}  // namespace hsa_rt
