// Memory pools, access, locking, pointer information, IPC and interoperability.
#include <algorithm>

#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

constexpr uint64_t kMaxIpcBytes = 0x7FFFFFFF000;

Status<void> pool_info(const Pool& pool, hsa_amd_memory_pool_info_t attribute, void* value) {
  const PoolInfo& info = pool.info();
  const bool global = info.segment == PoolSegment::kGlobal;
  switch (static_cast<int>(attribute)) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
      return answer(value, static_cast<hsa_amd_segment_t>(info.segment));
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      return answer(value, pool.global_flags());
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
      return answer(value, size_t{info.size_bytes});
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
      return answer(value, global ? size_t{info.size_bytes} : size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
      return answer(value, info.allocatable);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return answer(value, info.allocatable ? size_t{info.granule_bytes} : size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
      return answer(value, info.allocatable ? size_t{info.recommended_granule_bytes} : size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
      return answer(value, info.placement == Placement::kHost);
    case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
      TRY(require(global));
      return answer(value, info.placement == Placement::kHost ? HSA_AMD_MEMORY_POOL_LOCATION_CPU
                                                              : HSA_AMD_MEMORY_POOL_LOCATION_GPU);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

// NPUs are in no topology that has links.
const LinkInfo* link_between(Agent& from, Agent& to) {
  if (from.kind() == DeviceKind::kNpu || to.kind() == DeviceKind::kNpu) return nullptr;
  for (const LinkInfo& link : from.info().links) {
    if (link.node_to == to.info().node_id) return &link;
  }
  for (const LinkInfo& link : to.info().links) {
    if (link.node_to == from.info().node_id) return &link;
  }
  return nullptr;
}

hsa_amd_memory_pool_access_t access_to(Agent& agent, const Pool& pool) {
  const PoolInfo& info = pool.info();
  if (&pool.owner() == &agent) return HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
  if (info.segment != PoolSegment::kGlobal || info.placement == Placement::kDeviceHeap) {
    return HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  }
  if (agent.kind() == DeviceKind::kCpu) {
    return info.cpu_visible ? HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT
                            : HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  }
  // Memory of the host, also what an NPU hands out, and whatever an NPU is to see, is shared as dma-bufs on
  // request.
  const bool npu_involved = agent.kind() == DeviceKind::kNpu || pool.owner().kind() == DeviceKind::kNpu;
  if (info.placement == Placement::kHost || npu_involved)
    return HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
  const LinkInfo* link = link_between(agent, pool.owner());
  if (link == nullptr || !link->peer_to_peer || (info.fine_grained && link->type != LinkType::kXgmi)) {
    return HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  }
  return HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
}

Status<void> agent_pool_info(Agent& agent, const Pool& pool, hsa_amd_agent_memory_pool_info_t attribute,
                             void* value) {
  const hsa_amd_memory_pool_access_t access = access_to(agent, pool);
  const bool reachable = access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  const LinkInfo* link = reachable && &pool.owner() != &agent ? link_between(agent, pool.owner()) : nullptr;
  switch (attribute) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
      return answer(value, access);
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
      return answer(value, uint32_t{link != nullptr});
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO: {
      hsa_amd_memory_pool_link_info_t info{};
      if (link != nullptr) {
        info.min_latency = link->min_latency;
        info.max_latency = link->max_latency;
        info.min_bandwidth = link->min_bandwidth_mb_s;
        info.max_bandwidth = link->max_bandwidth_mb_s;
        info.atomic_support_32bit = link->atomics_32bit;
        info.atomic_support_64bit = link->atomics_64bit;
        info.coherent_support = link->coherent;
        info.link_type = static_cast<hsa_amd_link_info_type_t>(link->type);
        info.numa_distance = link->weight;
      }
      return answer(value, info);
    }
  }
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

Status<void> lock_memory(Runtime& runtime, void* host_ptr, size_t size, const hsa_agent_t* agents,
                         int num_agent, void** agent_ptr) {
  std::vector<Agent*> accessors = TRY(agents_for(runtime, agents, static_cast<size_t>(num_agent)));
  if (num_agent == 0) {
    for (Agent& agent : runtime.agents().agents()) {
      if (agent.kind() == DeviceKind::kGpu) accessors.push_back(&agent);
    }
  }
  // One registration serves the devices of one driver; it cannot give two drivers' devices the same address.
  const Driver* driver = nullptr;
  for (const Agent* agent : accessors) {
    if (agent->kind() == DeviceKind::kCpu) continue;
    TRY(require(driver == nullptr || driver == &agent->device().driver(), HSA_STATUS_ERROR_INVALID_AGENT));
    driver = &agent->device().driver();
  }
  *agent_ptr = TRY(runtime.allocations().lock_user_memory(host_ptr, size, accessors));
  return {};
}

hsa_amd_pointer_type_t pointer_type(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kPool:
      return HSA_EXT_POINTER_TYPE_HSA;
    case AllocationKind::kLocked:
      return HSA_EXT_POINTER_TYPE_LOCKED;
    case AllocationKind::kGraphics:
      return HSA_EXT_POINTER_TYPE_GRAPHICS;
    case AllocationKind::kIpc:
      return HSA_EXT_POINTER_TYPE_IPC;
  }
  return HSA_EXT_POINTER_TYPE_UNKNOWN;
}

struct PointerAnswer {
  hsa_amd_pointer_info_t info{};
  std::vector<Agent*> agents;
};

PointerAnswer look_up(Runtime& runtime, const void* ptr) {
  PointerAnswer found;
  if (const auto allocation = runtime.allocations().describe(ptr)) {
    found.info.type = pointer_type(allocation->kind);
    found.info.agentBaseAddress = allocation->agent_span.pointer();
    found.info.hostBaseAddress = const_cast<void*>(allocation->host_base);
    found.info.sizeInBytes = allocation->size;
    found.info.userData = allocation->user_data;
    if (allocation->owner != nullptr) found.info.agentOwner = allocation->owner->handle();
    if (allocation->pool != nullptr) found.info.global_flags = allocation->pool->global_flags();
    found.agents = allocation->agents;
  } else if (const auto mapping = runtime.vmem().describe(ptr)) {
    found.info.type =
        mapping->pool != nullptr ? HSA_EXT_POINTER_TYPE_HSA : HSA_EXT_POINTER_TYPE_RESERVED_ADDR;
    found.info.agentBaseAddress = mapping->span.pointer();
    found.info.hostBaseAddress = mapping->cpu_can_read ? mapping->span.pointer() : nullptr;
    found.info.sizeInBytes = mapping->span.size;
    if (mapping->pool != nullptr) {
      found.info.agentOwner = mapping->pool->owner().handle();
      found.info.global_flags = mapping->pool->global_flags();
    }
    found.agents = mapping->agents;
  }
  return found;
}

}  // namespace

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t memory_pool,
                                          hsa_amd_memory_pool_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    return pool_info(*TRY(pool_for(runtime, memory_pool)), attribute, value);
  });
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t memory_pool, void* data), void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    for (Pool& pool : TRY(agent_for(runtime, agent))->pools()) {
      const hsa_status_t status = callback(pool.handle(), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return {};
  });
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t memory_pool,
                                                hsa_amd_agent_memory_pool_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    Agent* const asking = TRY(agent_for(runtime, agent));
    return agent_pool_info(*asking, *TRY(pool_for(runtime, memory_pool)), attribute, value);
  });
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t memory_pool, size_t size, uint32_t flags,
                                          void** ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(size != 0 && ptr != nullptr));
    Pool* const pool = TRY(pool_for(runtime, memory_pool));
    AllocationTable::Options options;
    options.contiguous = (flags & HSA_AMD_MEMORY_POOL_CONTIGUOUS_FLAG) != 0;
    options.executable = (flags & HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG) != 0;
    *ptr = TRY(runtime.allocations().allocate(*pool, size, options));
    return {};
  });
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  return hsa_memory_free(ptr);
}

hsa_status_t hsa_memory_free(void* ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    if (ptr == nullptr) return {};
    return runtime.allocations().free(ptr);
  });
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t* agents,
                                         const uint32_t* flags, const void* ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(num_agents != 0 && agents != nullptr && flags == nullptr && ptr != nullptr));
    const std::vector<Agent*> accessors = TRY(agents_for(runtime, agents, num_agents));
    Status<void> outcome = runtime.allocations().allow_access(ptr, accessors);
    if (!outcome && outcome.error() == HSA_STATUS_ERROR_INVALID_ALLOCATION) {
      outcome = runtime.vmem().allow_access(ptr, accessors);
    }
    return outcome;
  });
}

hsa_status_t hsa_amd_memory_pool_can_migrate(hsa_amd_memory_pool_t src_memory_pool,
                                             hsa_amd_memory_pool_t dst_memory_pool, bool* result) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(result != nullptr));
    TRY(pool_for(runtime, src_memory_pool));
    TRY(pool_for(runtime, dst_memory_pool));
    *result = false;  // memory stays in the pool it was allocated from
    return {};
  });
}

hsa_status_t hsa_amd_memory_migrate(const void* ptr, hsa_amd_memory_pool_t memory_pool, uint32_t flags) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && flags == 0));
    TRY(pool_for(runtime, memory_pool));
    return kErrorNotSupported;
  });
}

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t* agents, int num_agent,
                                 void** agent_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(size != 0 && host_ptr != nullptr && agent_ptr != nullptr));
    *agent_ptr = nullptr;
    TRY(require(num_agent >= 0 && (agents == nullptr) == (num_agent == 0)));
    return lock_memory(runtime, host_ptr, size, agents, num_agent, agent_ptr);
  });
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host_ptr, size_t size, hsa_agent_t* agents, int num_agent,
                                         hsa_amd_memory_pool_t pool, uint32_t flags, void** agent_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(size != 0 && host_ptr != nullptr && agent_ptr != nullptr && flags == 0));
    *agent_ptr = nullptr;
    TRY(require(num_agent >= 0 && (agents == nullptr) == (num_agent == 0)));
    const Pool* const target = TRY(pool_for(runtime, pool));
    TRY(require(target->owner().kind() == DeviceKind::kCpu, kErrorInvalidMemoryPool));
    return lock_memory(runtime, host_ptr, size, agents, num_agent, agent_ptr);
  });
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(host_ptr != nullptr));
    return runtime.allocations().unlock_user_memory(host_ptr);
  });
}

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info, void* (*alloc)(size_t),
                                  uint32_t* num_agents_accessible, hsa_agent_t** accessible) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && info != nullptr && info->size != 0));
    PointerAnswer found = look_up(runtime, ptr);
    found.info.size = static_cast<uint32_t>(std::min<size_t>(info->size, sizeof(found.info)));
    std::memcpy(info, &found.info, found.info.size);
    if (alloc == nullptr || num_agents_accessible == nullptr || accessible == nullptr) return {};
    if (found.info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) return {};
    auto* list = static_cast<hsa_agent_t*>(alloc(found.agents.size() * sizeof(hsa_agent_t)));
    TRY(require(list != nullptr, HSA_STATUS_ERROR_OUT_OF_RESOURCES));
    std::ranges::transform(found.agents, list, [](const Agent* agent) { return agent->handle(); });
    *num_agents_accessible = static_cast<uint32_t>(found.agents.size());
    *accessible = list;
    return {};
  });
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void* ptr, void* userdata) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr));
    return require(runtime.allocations().set_user_data(ptr, userdata));
  });
}

hsa_status_t hsa_amd_register_deallocation_callback(void* ptr, hsa_amd_deallocation_callback_t callback,
                                                    void* user_data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && callback != nullptr));
    return runtime.allocations().add_deallocation_callback(ptr, callback, user_data);
  });
}

hsa_status_t hsa_amd_deregister_deallocation_callback(void* ptr, hsa_amd_deallocation_callback_t callback) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && callback != nullptr));
    return runtime.allocations().remove_deallocation_callback(ptr, callback);
  });
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t num_agents, hsa_agent_t* agents, int interop_handle,
                                        uint32_t flags, size_t* size, void** ptr, size_t* metadata_size,
                                        const void** metadata) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(agents != nullptr && size != nullptr && ptr != nullptr && flags == 0 && num_agents != 0));
    const std::vector<Agent*> accessors = TRY(agents_for(runtime, agents, num_agents));
    for (const Agent* agent : accessors) {
      TRY(require(agent->kind() == DeviceKind::kGpu, HSA_STATUS_ERROR_INVALID_AGENT));
    }
    const AllocationTable::Imported imported =
        TRY(runtime.allocations().import_dmabuf(AllocationKind::kGraphics, interop_handle, accessors));
    *size = imported.size;
    *ptr = imported.base;
    if (metadata_size != nullptr) *metadata_size = imported.metadata.size();
    if (metadata != nullptr) *metadata = imported.metadata.data();
    return {};
  });
}

hsa_status_t hsa_amd_interop_unmap_buffer(void* ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    if (ptr == nullptr) return {};
    return runtime.allocations().release_import(AllocationKind::kGraphics, ptr);
  });
}

hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t len, hsa_amd_ipc_memory_t* handle) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && handle != nullptr && len != 0 && len <= kMaxIpcBytes));
    return answer(handle, TRY(runtime.ipc().share(ptr, len)));
  });
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len, uint32_t num_agents,
                                       const hsa_agent_t* mapping_agents, void** mapped_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(handle != nullptr && mapped_ptr != nullptr &&
                (num_agents == 0 || mapping_agents != nullptr)));
    const std::vector<Agent*> accessors = TRY(agents_for(runtime, mapping_agents, num_agents));
    IpcHandle shared;
    std::memcpy(&shared, handle, sizeof(shared));
    TRY(require(shared.size_bytes == len));
    const UniqueFd dmabuf = TRY(fetch_shared_memory(shared));
    *mapped_ptr =
        TRY(runtime.allocations().import_dmabuf(AllocationKind::kIpc, dmabuf.get(), accessors)).base;
    return {};
  });
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped_ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(mapped_ptr != nullptr));
    return runtime.allocations().release_import(AllocationKind::kIpc, mapped_ptr);
  });
}
