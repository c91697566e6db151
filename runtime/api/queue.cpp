// Queues and their indices.
#include "runtime/api/entry.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

// The hsa_queue_t is the first member of the amd_queue_t that holds the indices.
amd_queue_t& amd_queue_of(const hsa_queue_t* queue) {
  return *reinterpret_cast<amd_queue_t*>(const_cast<hsa_queue_t*>(queue));
}

std::atomic_ref<uint64_t> read_index(const hsa_queue_t* queue) {
  return std::atomic_ref(const_cast<uint64_t&>(amd_queue_of(queue).read_dispatch_id));
}

std::atomic_ref<uint64_t> write_index(const hsa_queue_t* queue) {
  return std::atomic_ref(const_cast<uint64_t&>(amd_queue_of(queue).write_dispatch_id));
}

Status<std::shared_ptr<Queue>> queue_for(Runtime& runtime, const hsa_queue_t* queue) {
  TRY(require(queue != nullptr));
  std::shared_ptr<Queue> found = runtime.queues().find(queue);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_QUEUE;
  return found;
}

bool is_known_type(hsa_queue_type32_t type) {
  return type == HSA_QUEUE_TYPE_MULTI || type == HSA_QUEUE_TYPE_SINGLE || type == HSA_QUEUE_TYPE_COOPERATIVE;
}

}  // namespace

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                              void (*callback)(hsa_status_t status, hsa_queue_t* source, void* data),
                              void* data, uint32_t, uint32_t, hsa_queue_t** queue) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(queue != nullptr && is_power_of_two(size) && is_known_type(type)));
    Agent* const owner = TRY(agent_for(runtime, agent));
    const DeviceInfo& info = owner->info();
    const bool single_only = owner->kind() == DeviceKind::kNpu;
    TRY(require(info.max_queues != 0 && (!single_only || type == HSA_QUEUE_TYPE_SINGLE),
                HSA_STATUS_ERROR_INVALID_QUEUE_CREATION));
    TRY(require(size <= info.queue_max_packets));
    QueueRequest request;
    request.packet_count = std::max(size, static_cast<uint32_t>(info.queue_min_packets));
    request.type = type;
    request.callback = callback;
    request.callback_data = data;
    *queue = TRY(runtime.queues().create(*owner, request));
    return {};
  });
}

hsa_status_t hsa_soft_queue_create(hsa_region_t region, uint32_t size, hsa_queue_type32_t type,
                                   uint32_t features, hsa_signal_t doorbell_signal, hsa_queue_t** queue) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(queue != nullptr && is_power_of_two(size) && is_known_type(type) && features != 0));
    TRY(require(runtime.agents().find(hsa_amd_memory_pool_t{region.handle}) != nullptr,
                HSA_STATUS_ERROR_INVALID_REGION));
    TRY(signal_for(runtime, doorbell_signal));
    QueueRequest request;
    request.packet_count = size;
    request.type = type;
    *queue = TRY(runtime.queues().create_soft(request, features, doorbell_signal));
    return {};
  });
}

hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(queue != nullptr));
    return runtime.queues().destroy(queue);
  });
}

hsa_status_t hsa_queue_inactivate(hsa_queue_t* queue) {
  return with_runtime(
      [&](Runtime& runtime) -> Status<void> { return TRY(queue_for(runtime, queue))->inactivate(); });
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t* queue, hsa_amd_queue_priority_t priority) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    const std::shared_ptr<Queue> target = TRY(queue_for(runtime, queue));
    switch (priority) {
      case HSA_AMD_QUEUE_PRIORITY_LOW:
        return target->set_priority(QueuePriority::kLow);
      case HSA_AMD_QUEUE_PRIORITY_NORMAL:
        return target->set_priority(QueuePriority::kNormal);
      case HSA_AMD_QUEUE_PRIORITY_HIGH:
        return target->set_priority(QueuePriority::kHigh);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t* queue, uint32_t num_cu_mask_count,
                                       const uint32_t* cu_mask) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    const std::shared_ptr<Queue> target = TRY(queue_for(runtime, queue));
    TRY(require((num_cu_mask_count == 0 || cu_mask != nullptr) && num_cu_mask_count % 32 == 0));
    return target->set_cu_mask({cu_mask, num_cu_mask_count / 32});
  });
}

hsa_status_t hsa_amd_queue_cu_get_mask(const hsa_queue_t* queue, uint32_t num_cu_mask_count,
                                       uint32_t* cu_mask) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(cu_mask != nullptr));
    const std::shared_ptr<Queue> target = TRY(queue_for(runtime, queue));
    TRY(require(num_cu_mask_count != 0 && num_cu_mask_count % 32 == 0));
    const std::vector<uint32_t> mask = TRY(target->cu_mask());
    std::fill_n(cu_mask, num_cu_mask_count / 32, 0);
    std::copy_n(mask.begin(), std::min<size_t>(mask.size(), num_cu_mask_count / 32), cu_mask);
    return {};
  });
}

hsa_status_t hsa_amd_queue_get_info(hsa_queue_t* queue, hsa_queue_info_attribute_t attribute, void* value) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(value != nullptr));
    const std::shared_ptr<Queue> target = TRY(queue_for(runtime, queue));
    switch (attribute) {
      case HSA_AMD_QUEUE_INFO_AGENT:
        return answer(value, target->agent() == nullptr ? hsa_agent_t{0} : target->agent()->handle());
      case HSA_AMD_QUEUE_INFO_DOORBELL_ID:
        return answer(value, target->doorbell_id());
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}

uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* queue) {
  return read_index(queue).load(std::memory_order_relaxed);
}
uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* queue) {
  return read_index(queue).load(std::memory_order_acquire);
}
uint64_t hsa_queue_load_read_index_acquire(const hsa_queue_t* queue) {
  return read_index(queue).load(std::memory_order_acquire);
}
void hsa_queue_store_read_index_relaxed(const hsa_queue_t* queue, uint64_t value) {
  read_index(queue).store(value, std::memory_order_relaxed);
}
void hsa_queue_store_read_index_screlease(const hsa_queue_t* queue, uint64_t value) {
  read_index(queue).store(value, std::memory_order_release);
}
void hsa_queue_store_read_index_release(const hsa_queue_t* queue, uint64_t value) {
  read_index(queue).store(value, std::memory_order_release);
}

uint64_t hsa_queue_load_write_index_relaxed(const hsa_queue_t* queue) {
  return write_index(queue).load(std::memory_order_relaxed);
}
uint64_t hsa_queue_load_write_index_scacquire(const hsa_queue_t* queue) {
  return write_index(queue).load(std::memory_order_acquire);
}
uint64_t hsa_queue_load_write_index_acquire(const hsa_queue_t* queue) {
  return write_index(queue).load(std::memory_order_acquire);
}
void hsa_queue_store_write_index_relaxed(const hsa_queue_t* queue, uint64_t value) {
  write_index(queue).store(value, std::memory_order_relaxed);
}
void hsa_queue_store_write_index_screlease(const hsa_queue_t* queue, uint64_t value) {
  write_index(queue).store(value, std::memory_order_release);
}
void hsa_queue_store_write_index_release(const hsa_queue_t* queue, uint64_t value) {
  write_index(queue).store(value, std::memory_order_release);
}

#define HSA_RT_WRITE_INDEX(suffix, order)                                                                    \
  uint64_t hsa_queue_add_write_index_##suffix(const hsa_queue_t* queue, uint64_t value) {                    \
    return write_index(queue).fetch_add(value, order);                                                       \
  }                                                                                                          \
  uint64_t hsa_queue_cas_write_index_##suffix(const hsa_queue_t* queue, uint64_t expected, uint64_t value) { \
    write_index(queue).compare_exchange_strong(expected, value, order);                                      \
    return expected;                                                                                         \
  }

HSA_RT_WRITE_INDEX(relaxed, std::memory_order_relaxed)
HSA_RT_WRITE_INDEX(scacquire, std::memory_order_acquire)
HSA_RT_WRITE_INDEX(screlease, std::memory_order_release)
HSA_RT_WRITE_INDEX(scacq_screl, std::memory_order_acq_rel)
HSA_RT_WRITE_INDEX(acquire, std::memory_order_acquire)
HSA_RT_WRITE_INDEX(release, std::memory_order_release)
HSA_RT_WRITE_INDEX(acq_rel, std::memory_order_acq_rel)
