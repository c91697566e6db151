// Agents, their instruction sets, caches and regions.
#include <algorithm>

#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

constexpr size_t kNameBytes = 64;  // of every name an agent has, the terminating zero included
constexpr uint16_t kWorkgroupMaxDim[3] = {1024, 1024, 1024};
constexpr uint32_t kWorkgroupMaxSize = 1024;
constexpr hsa_dim3_t kGridMaxDim = {INT32_MAX, UINT16_MAX, UINT16_MAX};
constexpr uint32_t kFbarrierMaxSize = 32;

Status<void> from_c(hsa_status_t status) {
  return require(status == HSA_STATUS_SUCCESS, status);
}

Status<void> answer_name(void* value, std::string_view name) {
  char text[kNameBytes] = {};
  name.copy(text, kNameBytes - 1);
  return answer(value, text);
}

// For the two names that upstream copies without padding: callers give shorter buffers for them.
Status<void> answer_text(void* value, const std::string& text) {
  std::memcpy(value, text.c_str(), text.size() + 1);
  return {};
}

hsa_device_type_t device_type(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return HSA_DEVICE_TYPE_CPU;
    case DeviceKind::kGpu:
      return HSA_DEVICE_TYPE_GPU;
    case DeviceKind::kNpu:
      return HSA_DEVICE_TYPE_AIE;
  }
  return HSA_DEVICE_TYPE_CPU;
}

uint32_t features(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return 0;
    case DeviceKind::kGpu:
      return HSA_AGENT_FEATURE_KERNEL_DISPATCH;
    case DeviceKind::kNpu:
      return HSA_AGENT_FEATURE_AGENT_DISPATCH;
  }
  return 0;
}

Status<void> cache_sizes(const DeviceInfo& info, void* value) {
  uint32_t sizes[4] = {};
  for (const CacheInfo& cache : info.caches) {
    if (cache.data && cache.level >= 1 && cache.level <= 4) {
      sizes[cache.level - 1] = static_cast<uint32_t>(cache.size_bytes);
    }
  }
  return answer(value, sizes);
}

Status<void> nearest_cpu(Runtime& runtime, const DeviceInfo& info, void* value) {
  hsa_agent_t nearest{0};
  for (const Agent& agent : runtime.agents().agents()) {
    if (agent.kind() != DeviceKind::kCpu) continue;
    if (nearest.handle == 0 || agent.info().node_id == info.nearest_cpu_node) nearest = agent.handle();
  }
  return answer(value, nearest);
}

Status<void> clock_counters(const Agent& agent, void* value) {
  const ClockCounters counters = TRY(agent.device().clock_counters().error_as(HSA_STATUS_ERROR));
  return answer(value, hsa_amd_clock_counters_t{counters.device, counters.cpu_ns, counters.system_ns,
                                                counters.system_frequency_hz});
}

Status<void> standard_info(Runtime& runtime, const Agent& agent, uint32_t attribute, void* value) {
  const DeviceInfo& info = agent.info();
  const bool gpu = agent.kind() == DeviceKind::kGpu;
  switch (attribute) {
    case HSA_AGENT_INFO_NAME:
      return answer_name(value, info.name);
    case HSA_AGENT_INFO_VENDOR_NAME:
      return answer_name(value, info.vendor_name);
    case HSA_AGENT_INFO_FEATURE:
      return answer(value, static_cast<hsa_agent_feature_t>(features(agent.kind())));
    case HSA_AGENT_INFO_MACHINE_MODEL:
      return answer(value, HSA_MACHINE_MODEL_LARGE);
    case HSA_AGENT_INFO_PROFILE:
      return answer(value, agent.kind() == DeviceKind::kCpu ? HSA_PROFILE_FULL : HSA_PROFILE_BASE);
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
    case HSA_AGENT_INFO_BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES:
      return answer(value, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR);
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
      return answer(value, info.fast_f16);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      return answer(value, info.wavefront_size);
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
      if (gpu) return answer(value, kWorkgroupMaxDim);
      std::memset(value, 0, sizeof(kWorkgroupMaxDim));
      return {};
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
      return answer(value, gpu ? kWorkgroupMaxSize : 0);
    case HSA_AGENT_INFO_GRID_MAX_DIM:
      return answer(value, gpu ? kGridMaxDim : hsa_dim3_t{});
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
      return answer(value, gpu ? UINT32_MAX : 0);
    case HSA_AGENT_INFO_FBARRIER_MAX_SIZE:
      return answer(value, gpu ? kFbarrierMaxSize : 0);
    case HSA_AGENT_INFO_QUEUES_MAX:
      return answer(value, info.max_queues);
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
      return answer(value, static_cast<uint32_t>(info.queue_min_packets));
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
      return answer(value, static_cast<uint32_t>(info.queue_max_packets));
    case HSA_AGENT_INFO_QUEUE_TYPE:
      return answer(value, hsa_queue_type32_t{agent.kind() == DeviceKind::kNpu ? HSA_QUEUE_TYPE_SINGLE
                                                                               : HSA_QUEUE_TYPE_MULTI});
    case HSA_AGENT_INFO_NODE:
      return answer(value, info.node_id);
    case HSA_AGENT_INFO_DEVICE:
      return answer(value, device_type(agent.kind()));
    case HSA_AGENT_INFO_CACHE_SIZE:
      return cache_sizes(info, value);
    case HSA_AGENT_INFO_ISA:
      return answer(value, info.isa_names.empty() ? hsa_isa_t{0}
                                                  : runtime.agents().isa_named(info.isa_names[0]).value());
    case HSA_AGENT_INFO_EXTENSIONS:
      std::memset(value, 0, 128);
      return {};
    case HSA_AGENT_INFO_VERSION_MAJOR:
    case HSA_AGENT_INFO_VERSION_MINOR:
      return answer(value, uint16_t{1});
    case HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_1DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_1DB_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_ARRAY_MAX_LAYERS:
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RD_HANDLES:
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RORW_HANDLES:
    case HSA_EXT_AGENT_INFO_MAX_SAMPLER_HANDLERS:
      return answer(value, uint32_t{0});
    case HSA_EXT_AGENT_INFO_IMAGE_2D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DDEPTH_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DADEPTH_MAX_ELEMENTS:
      std::memset(value, 0, 2 * sizeof(uint32_t));
      return {};
    case HSA_EXT_AGENT_INFO_IMAGE_3D_MAX_ELEMENTS:
      std::memset(value, 0, 3 * sizeof(uint32_t));
      return {};
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

Status<void> amd_info(Runtime& runtime, const Agent& agent, uint32_t attribute, void* value) {
  const DeviceInfo& info = agent.info();
  switch (attribute) {
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      return answer(value, info.chip_id);
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
      return answer(value, info.cacheline_bytes);
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
      return answer(value, info.compute_units);
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
      return answer(value, info.max_clock_mhz);
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
      return answer(value, info.node_id);
    case HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS:
      return answer(value, info.watch_points);
    case HSA_AMD_AGENT_INFO_BDFID:
      return answer(value, info.location_id);
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
      return answer(value, info.memory_width_bits);
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
      return answer(value, info.memory_clock_mhz);
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      return answer_name(value, info.product_name);
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
      return answer(value, info.max_waves_per_cu);
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
      return answer(value, info.simds_per_cu);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
      return answer(value, info.shader_engines);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
      return answer(value, info.shader_arrays_per_engine);
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
      return answer(value, hsa_amd_hdp_flush_t{});
    case HSA_AMD_AGENT_INFO_DOMAIN:
      return answer(value, info.domain);
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
      return answer(value, false);
    case HSA_AMD_AGENT_INFO_UUID:
      return answer_text(value, info.uuid);
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
      return answer(value, info.asic_revision);
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
      return answer(value, agent.device().shares_cpu_page_tables() || info.integrated);
    case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
      return answer(value,
                    TRY(agent.device().available_memory_bytes().error_as(HSA_STATUS_ERROR_INVALID_ARGUMENT)));
    case HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY:
      return answer(value, info.timestamp_frequency_hz);
    case HSA_AMD_AGENT_INFO_ASIC_FAMILY_ID:
      return answer(value, info.asic_family);
    case HSA_AMD_AGENT_INFO_UCODE_VERSION:
      return answer(value, info.firmware_version);
    case HSA_AMD_AGENT_INFO_SDMA_UCODE_VERSION:
      return answer(value, info.sdma_firmware_version);
    case HSA_AMD_AGENT_INFO_NUM_SDMA_ENG:
      return answer(value, info.sdma_engines);
    case HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG:
      return answer(value, info.sdma_xgmi_engines);
    case HSA_AMD_AGENT_INFO_IOMMU_SUPPORT:
      return answer(value, uint32_t{0});
    case HSA_AMD_AGENT_INFO_NUM_XCC:
      return answer(value, agent.kind() == DeviceKind::kGpu ? info.xcc_count : 0);
    case HSA_AMD_AGENT_INFO_DRIVER_UID:
      return answer(value, static_cast<uint32_t>(info.driver_uid));
    case HSA_AMD_AGENT_INFO_NEAREST_CPU:
      return nearest_cpu(runtime, info, value);
    case HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES: {
      uint8_t flags[8] = {};
      if (info.integrated) flags[0] = 1 << HSA_AMD_MEMORY_PROPERTY_AGENT_IS_APU;
      return answer(value, flags);
    }
    case HSA_AMD_AGENT_INFO_AQL_EXTENSIONS:
      std::memset(value, 0, 8);
      return {};
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_MAX:
    case HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_CURRENT:
      return answer(value, uint64_t{0});
    case HSA_AMD_AGENT_INFO_CLOCK_COUNTERS:
      return clock_counters(agent, value);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

Status<void> isa_info(const Isa& isa, hsa_isa_info_t attribute, void* value) {
  constexpr bool kMachineModels[2] = {false, true};
  constexpr bool kProfiles[2] = {true, false};
  constexpr bool kRoundingModes[3] = {false, false, true};
  switch (attribute) {
    case HSA_ISA_INFO_NAME_LENGTH:
      return answer(value, static_cast<uint32_t>(isa.name.size() + 1));
    case HSA_ISA_INFO_NAME:
      return answer_text(value, isa.name);
    case HSA_ISA_INFO_CALL_CONVENTION_COUNT:
      return answer(value, uint32_t{1});
    case HSA_ISA_INFO_CALL_CONVENTION_INFO_WAVEFRONT_SIZE:
      return answer(value, isa.wavefront_size);
    case HSA_ISA_INFO_CALL_CONVENTION_INFO_WAVEFRONTS_PER_COMPUTE_UNIT:
      return answer(value, uint32_t{40});
    case HSA_ISA_INFO_MACHINE_MODELS:
      return answer(value, kMachineModels);
    case HSA_ISA_INFO_PROFILES:
      return answer(value, kProfiles);
    case HSA_ISA_INFO_DEFAULT_FLOAT_ROUNDING_MODES:
    case HSA_ISA_INFO_BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES:
      return answer(value, kRoundingModes);
    case HSA_ISA_INFO_FAST_F16_OPERATION:
      return answer(value, isa.fast_f16);
    case HSA_ISA_INFO_WORKGROUP_MAX_DIM:
      return answer(value, kWorkgroupMaxDim);
    case HSA_ISA_INFO_WORKGROUP_MAX_SIZE:
      return answer(value, kWorkgroupMaxSize);
    case HSA_ISA_INFO_GRID_MAX_DIM:
      return answer(value, kGridMaxDim);
    case HSA_ISA_INFO_GRID_MAX_SIZE:
      return answer(value, UINT64_MAX);
    case HSA_ISA_INFO_FBARRIER_MAX_SIZE:
      return answer(value, kFbarrierMaxSize);
  }
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

Status<const Isa*> isa_for(Runtime& runtime, hsa_isa_t handle) {
  const Isa* isa = runtime.agents().find(handle);
  if (isa == nullptr) return HSA_STATUS_ERROR_INVALID_ISA;
  return isa;
}

std::string cache_name(const Agent& agent, const CacheInfo& cache) {
  return agent.info().name + " L" + std::to_string(cache.level);
}

// Regions are the older name of pools; a GPU lists the system's among its own.
Status<Pool*> region_pool(Runtime& runtime, hsa_region_t region) {
  Pool* pool = runtime.agents().find(hsa_amd_memory_pool_t{region.handle});
  if (pool == nullptr) return HSA_STATUS_ERROR_INVALID_REGION;
  return pool;
}

Status<void> region_info(const Pool& pool, uint32_t attribute, void* value) {
  switch (attribute) {
    case HSA_REGION_INFO_SEGMENT:
    case HSA_REGION_INFO_GLOBAL_FLAGS:
    case HSA_REGION_INFO_SIZE:
    case HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED:
    case HSA_REGION_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_REGION_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return from_c(hsa_amd_memory_pool_get_info(pool.handle(),
                                                 static_cast<hsa_amd_memory_pool_info_t>(attribute), value));
    case HSA_REGION_INFO_ALLOC_MAX_SIZE:
      return from_c(
          hsa_amd_memory_pool_get_info(pool.handle(), HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE, value));
    case HSA_REGION_INFO_ALLOC_MAX_PRIVATE_WORKGROUP_SIZE:
      return answer(value, uint32_t{0});
    case HSA_AMD_REGION_INFO_HOST_ACCESSIBLE:
      return answer(value, pool.info().cpu_visible);
    case HSA_AMD_REGION_INFO_BASE:
      return answer(value, static_cast<void*>(nullptr));
    case HSA_AMD_REGION_INFO_BUS_WIDTH:
      return answer(value, pool.owner().info().memory_width_bits);
    case HSA_AMD_REGION_INFO_MAX_CLOCK_FREQUENCY:
      return answer(value, pool.owner().info().memory_clock_mhz);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void* data), void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    for (const Agent& agent : runtime.agents().agents()) {
      const hsa_status_t status = callback(agent.handle(), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return {};
  });
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    constexpr uint32_t kFirstAmdAttribute = HSA_AMD_AGENT_INFO_CHIP_ID;
    TRY(require(value != nullptr));
    const Agent* const asked = TRY(agent_for(runtime, agent));
    const auto number = static_cast<uint32_t>(attribute);
    return number >= kFirstAmdAttribute ? amd_info(runtime, *asked, number, value)
                                        : standard_info(runtime, *asked, number, value);
  });
}

hsa_status_t hsa_agent_get_exception_policies(hsa_agent_t agent, hsa_profile_t profile, uint16_t* mask) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(mask != nullptr && (profile == HSA_PROFILE_BASE || profile == HSA_PROFILE_FULL)));
    TRY(agent_for(runtime, agent));
    *mask = 0;
    return {};
  });
}

hsa_status_t hsa_agent_iterate_caches(hsa_agent_t agent,
                                      hsa_status_t (*callback)(hsa_cache_t cache, void* data), void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    const Agent* const asked = TRY(agent_for(runtime, agent));
    for (size_t i = 0; i < asked->info().caches.size(); ++i) {
      const hsa_status_t status = callback(AgentDirectory::cache_handle(*asked, i), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return {};
  });
}

hsa_status_t hsa_cache_get_info(hsa_cache_t cache, hsa_cache_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    Agent* agent = nullptr;
    const CacheInfo* const info = runtime.agents().find(cache, &agent);
    TRY(require(info != nullptr, HSA_STATUS_ERROR_INVALID_CACHE));
    switch (attribute) {
      case HSA_CACHE_INFO_NAME_LENGTH:
        return answer(value, static_cast<uint32_t>(cache_name(*agent, *info).size()));
      case HSA_CACHE_INFO_NAME:
        return answer_text(value, cache_name(*agent, *info));
      case HSA_CACHE_INFO_LEVEL:
        return answer(value, static_cast<uint8_t>(info->level));
      case HSA_CACHE_INFO_SIZE:
        return answer(value, static_cast<uint32_t>(info->size_bytes));
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t isa, void* data),
                                    void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    for (const std::string& name : TRY(agent_for(runtime, agent))->info().isa_names) {
      const hsa_status_t status = callback(runtime.agents().isa_named(name).value(), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return {};
  });
}

hsa_status_t hsa_isa_from_name(const char* name, hsa_isa_t* isa) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(name != nullptr && isa != nullptr));
    const std::optional<hsa_isa_t> found = runtime.agents().isa_named(name);
    TRY(require(found.has_value(), HSA_STATUS_ERROR_INVALID_ISA_NAME));
    *isa = *found;
    return {};
  });
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    return isa_info(*TRY(isa_for(runtime, isa)), attribute, value);
  });
}

hsa_status_t hsa_isa_get_info(hsa_isa_t isa, hsa_isa_info_t attribute, uint32_t index, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    const Isa* const asked = TRY(isa_for(runtime, isa));
    TRY(require(index == 0, HSA_STATUS_ERROR_INVALID_INDEX));
    return isa_info(*asked, attribute, value);
  });
}

hsa_status_t hsa_isa_get_exception_policies(hsa_isa_t isa, hsa_profile_t profile, uint16_t* mask) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(mask != nullptr && (profile == HSA_PROFILE_BASE || profile == HSA_PROFILE_FULL)));
    TRY(isa_for(runtime, isa));
    *mask = 0;
    return {};
  });
}

hsa_status_t hsa_isa_get_round_method(hsa_isa_t isa, hsa_fp_type_t, hsa_flush_mode_t,
                                      hsa_round_method_t* round_method) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(round_method != nullptr));
    TRY(isa_for(runtime, isa));
    *round_method = HSA_ROUND_METHOD_SINGLE;
    return {};
  });
}

hsa_status_t hsa_isa_compatible(hsa_isa_t code_object_isa, hsa_isa_t agent_isa, bool* result) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(result != nullptr));
    TRY(isa_for(runtime, code_object_isa));
    TRY(isa_for(runtime, agent_isa));
    *result = code_object_isa.handle == agent_isa.handle;
    return {};
  });
}

// A wavefront handle is its instruction set's: each has one size.
hsa_status_t hsa_isa_iterate_wavefronts(hsa_isa_t isa,
                                        hsa_status_t (*callback)(hsa_wavefront_t wavefront, void* data),
                                        void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    TRY(isa_for(runtime, isa));
    return from_c(callback({isa.handle}, data));
  });
}

hsa_status_t hsa_wavefront_get_info(hsa_wavefront_t wavefront, hsa_wavefront_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr && attribute == HSA_WAVEFRONT_INFO_SIZE));
    const Isa* const isa = runtime.agents().find(hsa_isa_t{wavefront.handle});
    TRY(require(isa != nullptr, HSA_STATUS_ERROR_INVALID_WAVEFRONT));
    return answer(value, isa->wavefront_size);
  });
}

hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
                                       hsa_status_t (*callback)(hsa_region_t region, void* data),
                                       void* data) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(callback != nullptr));
    Agent* const asked = TRY(agent_for(runtime, agent));
    for (Agent& owner : runtime.agents().agents()) {
      const bool system = owner.kind() == DeviceKind::kCpu && asked->kind() == DeviceKind::kGpu;
      if (&owner != asked && !system) continue;
      for (const Pool& pool : owner.pools()) {
        const hsa_status_t status = callback({pool.handle().handle}, data);
        if (status != HSA_STATUS_SUCCESS) return status;
      }
    }
    return {};
  });
}

hsa_status_t hsa_region_get_info(hsa_region_t region, hsa_region_info_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    return region_info(*TRY(region_pool(runtime, region)), static_cast<uint32_t>(attribute), value);
  });
}

hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void** ptr) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(size != 0 && ptr != nullptr));
    Pool* const pool = TRY(region_pool(runtime, region));
    // Region memory is for every agent that lists the region.
    *ptr = TRY(runtime.allocations().allocate(
        *pool, size, {.for_all_agents = pool->info().placement == Placement::kHost}));
    return {};
  });
}

hsa_status_t hsa_memory_assign_agent(void* ptr, hsa_agent_t agent, hsa_access_permission_t access) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && (access == HSA_ACCESS_PERMISSION_RO || access == HSA_ACCESS_PERMISSION_WO ||
                                   access == HSA_ACCESS_PERMISSION_RW)));
    TRY(agent_for(runtime, agent));
    return {};
  });
}

// On these devices registering is only a hint about performance, and one that changes nothing.
hsa_status_t hsa_memory_register(void* ptr, size_t size) {
  return with_runtime([&](Runtime&) { return require(size == 0 || ptr != nullptr); });
}

hsa_status_t hsa_memory_deregister(void*, size_t) {
  return with_runtime([](Runtime&) -> Status<void> { return {}; });
}
