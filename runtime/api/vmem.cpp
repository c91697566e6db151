// hsa_amd_vmem_* and the dma-bufs of ordinary allocations.
#include <unistd.h>

#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

// Permissions come as an enumeration that a C caller can put anything into.
Status<Permission> to_permission(const hsa_access_permission_t& permission) {
  std::underlying_type_t<hsa_access_permission_t> value = 0;
  std::memcpy(&value, &permission, sizeof(value));
  if (value > 3) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return static_cast<Permission>(value);
}

Status<void> reserve(Runtime& runtime, void** va, size_t size, uint64_t address, uint64_t alignment,
                     uint64_t flags) {
  TRY(require(va != nullptr && (flags & ~uint64_t{HSA_AMD_VMEM_ADDRESS_NO_REGISTER}) == 0));
  *va = TRY(runtime.vmem().reserve(size, address, alignment));
  return {};
}

Status<void> export_allocation(Runtime& runtime, const void* ptr, size_t size, int* dmabuf, uint64_t* offset,
                               uint64_t flags) {
  TRY(require(ptr != nullptr && size != 0 && dmabuf != nullptr && offset != nullptr));
  TRY(require((flags & ~uint64_t{HSA_AMD_DMABUF_MAPPING_TYPE_PCIE}) == 0));
  const auto allocation = runtime.allocations().describe(ptr);
  TRY(require(allocation && allocation->kind == AllocationKind::kPool, HSA_STATUS_ERROR_INVALID_ALLOCATION));
  TRY(require(allocation->owner->kind() != DeviceKind::kCpu, HSA_STATUS_ERROR_INVALID_AGENT));
  // Peers reach the memory through the bus only where all of it is visible there.
  if ((flags & HSA_AMD_DMABUF_MAPPING_TYPE_PCIE) != 0)
    TRY(require(allocation->pool->info().cpu_visible, kErrorNotSupported));
  AllocationTable::Exported exported = TRY(runtime.allocations().export_dmabuf(ptr, size));
  *offset = exported.offset;
  *dmabuf = exported.fd.release();
  return {};
}

}  // namespace

hsa_status_t hsa_amd_vmem_address_reserve(void** va, size_t size, uint64_t address, uint64_t flags) {
  return with_runtime([&](Runtime& runtime) { return reserve(runtime, va, size, address, 0, flags); });
}

hsa_status_t hsa_amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address, uint64_t alignment,
                                                uint64_t flags) {
  return with_runtime(
      [&](Runtime& runtime) { return reserve(runtime, va, size, address, alignment, flags); });
}

hsa_status_t hsa_amd_vmem_address_free(void* va, size_t size) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(va != nullptr && size != 0));
    return runtime.vmem().free(va, size);
  });
}

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, hsa_amd_memory_type_t type,
                                        uint64_t flags, hsa_amd_vmem_alloc_handle_t* memory_handle) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(memory_handle != nullptr && size != 0 && flags == 0));
    TRY(require(type == MEMORY_TYPE_NONE || type == MEMORY_TYPE_PINNED));
    Pool* const from = runtime.agents().find(pool);
    TRY(require(from != nullptr));
    memory_handle->handle = TRY(runtime.vmem().create(*from, size, type));
    return {};
  });
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle) {
  return with_runtime([&](Runtime& runtime) { return runtime.vmem().release(memory_handle.handle); });
}

hsa_status_t hsa_amd_vmem_map(void* va, size_t size, size_t in_offset,
                              hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t flags) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(va != nullptr && size != 0 && flags == 0));
    return runtime.vmem().map(va, size, in_offset, memory_handle.handle);
  });
}

hsa_status_t hsa_amd_vmem_unmap(void* va, size_t size) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(va != nullptr && size != 0));
    return runtime.vmem().unmap(va, size);
  });
}

hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* desc,
                                     size_t desc_cnt) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(va != nullptr && size != 0 && desc != nullptr && desc_cnt != 0));
    std::vector<AccessRequest> requests;
    for (size_t i = 0; i < desc_cnt; ++i) {
      Agent* const agent = TRY(agent_for(runtime, desc[i].agent_handle));
      requests.push_back({agent, TRY(to_permission(desc[i].permissions))});
    }
    return runtime.vmem().set_access(va, size, requests);
  });
}

hsa_status_t hsa_amd_vmem_get_access(void* va, hsa_access_permission_t* perms, hsa_agent_t agent_handle) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(va != nullptr && perms != nullptr));
    *perms = HSA_ACCESS_PERMISSION_NONE;
    const Agent* const agent = TRY(agent_for(runtime, agent_handle));
    *perms = static_cast<hsa_access_permission_t>(TRY(runtime.vmem().get_access(va, *agent)));
    return {};
  });
}

hsa_status_t hsa_amd_vmem_export_shareable_handle(int* dmabuf_fd, hsa_amd_vmem_alloc_handle_t handle,
                                                  uint64_t flags) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(dmabuf_fd != nullptr && flags == 0));
    UniqueFd fd = TRY(runtime.vmem().export_dmabuf(handle.handle));
    *dmabuf_fd = fd.release();
    return {};
  });
}

hsa_status_t hsa_amd_vmem_import_shareable_handle(int dmabuf_fd, hsa_amd_vmem_alloc_handle_t* handle) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(dmabuf_fd >= 0 && handle != nullptr));
    handle->handle = TRY(runtime.vmem().import_dmabuf(dmabuf_fd));
    return {};
  });
}

hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t* memory_handle, void* addr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(memory_handle != nullptr && addr != nullptr));
    memory_handle->handle = TRY(runtime.vmem().retain(addr));
    return {};
  });
}

hsa_status_t hsa_amd_vmem_get_alloc_properties_from_handle(hsa_amd_vmem_alloc_handle_t memory_handle,
                                                           hsa_amd_memory_pool_t* pool,
                                                           hsa_amd_memory_type_t* type) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(pool != nullptr && type != nullptr));
    const VmemTable::Properties properties = TRY(runtime.vmem().properties(memory_handle.handle));
    *pool = properties.pool == nullptr ? hsa_amd_memory_pool_t{0} : properties.pool->handle();
    *type = properties.type;
    return {};
  });
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void* ptr, size_t size, int* dmabuf, uint64_t* offset) {
  return hsa_amd_portable_export_dmabuf_v2(ptr, size, dmabuf, offset, HSA_AMD_DMABUF_MAPPING_TYPE_NONE);
}

hsa_status_t hsa_amd_portable_export_dmabuf_v2(const void* ptr, size_t size, int* dmabuf, uint64_t* offset,
                                               uint64_t flags) {
  return with_runtime(
      [&](Runtime& runtime) { return export_allocation(runtime, ptr, size, dmabuf, offset, flags); });
}

hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf) {
  return with_runtime([&](Runtime&) -> Status<void> {
    TRY(require(dmabuf >= 0));
    return require(::close(dmabuf) == 0, HSA_STATUS_ERROR_RESOURCE_FREE);
  });
}
