// The virtual memory API's state: reservations, memories and mappings.
//
//   Reservation  [base, base + size) of the address space; can be given back when nothing is mapped in it
//   Memory       alive while its handle is held (ref_count > 0); after the last release it lives on,
//   unreachable by handle,
//                until its last mapping goes. Retaining it through a mapped address revives the same handle.
//   Mapping      a MappedRange inside one reservation
//
// One lock covers every operation including exports and imports; get_access and the other questions share it.
// Every call either takes effect completely or leaves everything as it was.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/base/unique_fd.h"
#include "runtime/core/agent.h"
#include "runtime/core/buffer_identity.h"
#include "runtime/core/handle_table.h"
#include "runtime/core/mapped_range.h"
#include "runtime/core/status.h"

namespace hsa_rt {

class VmemTable {
 public:
  // Both must outlive the table.
  VmemTable(AgentDirectory& directory, std::span<const std::shared_ptr<Driver>> drivers)
      : directory_(directory), drivers_(drivers) {}
  ~VmemTable();

  // `alignment` 0 means a page. `hint` is a wish.
  Status<void*> reserve(uint64_t size, uint64_t hint, uint64_t alignment);
  Status<void> free(void* base, uint64_t size);

  Status<uint64_t> create(Pool& pool, uint64_t size, hsa_amd_memory_type_t type);
  Status<void> release(uint64_t handle);
  Status<uint64_t> retain(const void* address);

  Status<void> map(void* base, uint64_t size, uint64_t offset, uint64_t handle);
  Status<void> unmap(void* base, uint64_t size);

  Status<void> set_access(void* base, uint64_t size, std::span<const AccessRequest> requests);
  Status<Permission> get_access(const void* address, const Agent& agent) const;
  // Read-write for the agents on the one mapping that holds `address`. INVALID_ALLOCATION when there is none.
  Status<void> allow_access(const void* address, std::span<Agent* const> agents);

  Status<UniqueFd> export_dmabuf(uint64_t handle);
  Status<uint64_t> import_dmabuf(int dmabuf_fd);

  struct Properties {
    Pool* pool = nullptr;
    hsa_amd_memory_type_t type = MEMORY_TYPE_NONE;
  };
  Status<Properties> properties(uint64_t handle) const;

  struct AddressInfo {
    AddressSpan span;
    Pool* pool = nullptr;  // null: reserved but not mapped
    std::vector<Agent*> agents;
    bool cpu_can_read = false;
  };
  std::optional<AddressInfo> describe(const void* address) const;

 private:
  struct Reservation {
    ReservedRange range;
    uint64_t use_count = 0;
  };

  struct MemoryRecord {
    std::shared_ptr<Memory> memory;
    Pool* pool = nullptr;
    hsa_amd_memory_type_t type = MEMORY_TYPE_NONE;
    uint64_t ref_count = 1;
    uint64_t use_count = 0;
    std::optional<BufferIdentity> identity;  // known once it was exported or imported
  };

  struct Mapping {
    Mapping(AddressSpan span, std::shared_ptr<Memory> memory, uint64_t offset, uint64_t handle,
            Reservation& owner)
        : range(span, std::move(memory), offset), memory_handle(handle), reservation(owner) {}
    MappedRange range;
    const uint64_t memory_handle;
    Reservation& reservation;
  };

  using Mappings = std::map<uint64_t, Mapping>;  // by start address

  Reservation* reservation_of(const AddressSpan& span);
  Mappings::iterator mapping_at(uint64_t address);
  Mappings::const_iterator mapping_at(uint64_t address) const;
  bool overlaps_mapping(const AddressSpan& span) const;
  // The mappings that tile `span` exactly, without holes.
  Status<std::vector<Mapping*>> tile(const AddressSpan& span);
  MemoryRecord* find_alive(uint64_t handle) const;
  // Applies one request list per mapping, all or none.
  Status<void> change_access(std::span<Mapping* const> mappings,
                             std::span<const std::vector<AccessRequest>> requests);
  // Closes a memory that has neither handle nor mapping. If the driver refuses, the record stays.
  Status<void> close_memory(uint64_t handle);
  void close_orphans();
  void remember_identity(uint64_t handle, int dmabuf_fd);

  AgentDirectory& directory_;
  const std::span<const std::shared_ptr<Driver>> drivers_;

  mutable std::shared_mutex lock_;
  std::map<uint64_t, Reservation> reservations_;  // by base
  mutable HandleTable<MemoryRecord> memories_;
  Mappings mappings_;
  std::map<BufferIdentity, uint64_t> handle_by_identity_;
  // Memories whose last mapping went but which the driver would not take back; tried again at the next
  // chance.
  std::vector<uint64_t> orphans_;
};

}  // namespace hsa_rt
