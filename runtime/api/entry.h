// What every entry point does around its work: find the runtime, turn results into status codes, and let no
// exception of the library's own out into C. The runtime is looked for before any argument is.
#pragma once

#include <cstring>
#include <new>
#include <type_traits>

#include "runtime/core/runtime.h"
#include "runtime/core/status.h"

namespace hsa_rt::api {

inline hsa_status_t to_c(hsa_status_t status) {
  return status;
}
inline hsa_status_t to_c(const Status<void>& status) {
  return status ? HSA_STATUS_SUCCESS : status.error();
}

// Status<void>, with "argument" as the way to say that a check failed.
inline Status<void> require(bool condition, hsa_status_t otherwise = HSA_STATUS_ERROR_INVALID_ARGUMENT) {
  if (!condition) return otherwise;
  return {};
}

template <class Work>
hsa_status_t with_runtime(Work work) noexcept {
  Runtime* const runtime = Runtime::current();
  if (runtime == nullptr) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  try {
    return to_c(work(*runtime));
  } catch (const std::bad_alloc&) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  } catch (...) {
    return HSA_STATUS_ERROR_EXCEPTION;
  }
}

inline Status<Agent*> agent_for(Runtime& runtime, hsa_agent_t handle) {
  Agent* agent = runtime.agents().find(handle);
  if (agent == nullptr) return HSA_STATUS_ERROR_INVALID_AGENT;
  return agent;
}

inline Status<Pool*> pool_for(Runtime& runtime, hsa_amd_memory_pool_t handle) {
  Pool* pool = runtime.agents().find(handle);
  if (pool == nullptr) return kErrorInvalidMemoryPool;
  return pool;
}

inline Status<std::vector<Agent*>> agents_for(Runtime& runtime, const hsa_agent_t* handles, size_t count) {
  std::vector<Agent*> agents;
  for (size_t i = 0; i < count; ++i) agents.push_back(TRY(agent_for(runtime, handles[i])));
  return agents;
}

inline Status<std::shared_ptr<Signal>> signal_for(Runtime& runtime, hsa_signal_t handle) {
  std::shared_ptr<Signal> signal = runtime.signals().find(handle);
  if (signal == nullptr) return HSA_STATUS_ERROR_INVALID_SIGNAL;
  return signal;
}

// Information queries write values of the documented type to untyped memory.
template <class T>
Status<void> answer(void* destination, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(destination, &value, sizeof(value));
  return {};
}

}  // namespace hsa_rt::api
