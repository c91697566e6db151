// What the HSA client programs share: agents, pools, checks that name the failing call. A program prints OK
// as its last line; anything else is a failure.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define HSA_CHECK(call)                                                                                     \
  do {                                                                                                      \
    const hsa_status_t status_ = (call);                                                                    \
    if (status_ != HSA_STATUS_SUCCESS && status_ != HSA_STATUS_INFO_BREAK) {                                \
      const char* text_ = nullptr;                                                                          \
      hsa_status_string(status_, &text_);                                                                   \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_ ? text_ : "unknown status"); \
      std::exit(1);                                                                                         \
    }                                                                                                       \
  } while (0)

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

namespace hsa_client {

struct Pool {
  hsa_amd_memory_pool_t pool{};
  hsa_agent_t agent{};
  bool is_gpu = false;
  bool kernarg = false;
  bool fine_grained = false;
  std::size_t size_bytes = 0;
};

struct System {
  std::vector<hsa_agent_t> cpus, gpus;
  std::vector<Pool> pools;  // those one can allocate from

  const Pool& cpu_pool(bool fine_grained = true) const {
    for (const Pool& pool : pools) {
      if (!pool.is_gpu && pool.fine_grained == fine_grained && !pool.kernarg) return pool;
    }
    std::fprintf(stderr, "no such system pool\n");
    std::exit(1);
  }
  const Pool& gpu_pool(std::size_t gpu) const {
    for (const Pool& pool : pools) {
      if (pool.is_gpu && pool.agent.handle == gpus.at(gpu).handle) return pool;
    }
    std::fprintf(stderr, "GPU %zu has no pool\n", gpu);
    std::exit(1);
  }
};

inline System discover() {
  HSA_CHECK(hsa_init());
  System system;
  HSA_CHECK(hsa_iterate_agents(
      [](hsa_agent_t agent, void* data) {
        auto& found = *static_cast<System*>(data);
        hsa_device_type_t type{};
        HSA_CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
        if (type == HSA_DEVICE_TYPE_CPU) found.cpus.push_back(agent);
        if (type == HSA_DEVICE_TYPE_GPU) found.gpus.push_back(agent);
        return HSA_STATUS_SUCCESS;
      },
      &system));
  struct Search {
    System* system;
    hsa_agent_t agent;
    bool is_gpu;
  };
  const auto add_pools = [&](hsa_agent_t agent, bool is_gpu) {
    Search search{&system, agent, is_gpu};
    HSA_CHECK(hsa_amd_agent_iterate_memory_pools(
        agent,
        [](hsa_amd_memory_pool_t pool, void* data) {
          const auto& search = *static_cast<Search*>(data);
          hsa_amd_segment_t segment{};
          HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
          bool can_allocate = false;
          HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                                                 &can_allocate));
          if (segment != HSA_AMD_SEGMENT_GLOBAL || !can_allocate) return HSA_STATUS_SUCCESS;
          std::uint32_t flags = 0;
          Pool found{pool, search.agent, search.is_gpu};
          HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
          HSA_CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &found.size_bytes));
          found.kernarg = flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
          found.fine_grained = flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
          search.system->pools.push_back(found);
          return HSA_STATUS_SUCCESS;
        },
        &search));
  };
  for (const hsa_agent_t agent : system.cpus) add_pools(agent, false);
  for (const hsa_agent_t agent : system.gpus) add_pools(agent, true);
  REQUIRE(!system.cpus.empty());
  REQUIRE(!system.gpus.empty());
  return system;
}

// Memory of a pool that every GPU may access.
inline void* allocate(const System& system, const Pool& pool, std::size_t size_bytes) {
  void* address = nullptr;
  HSA_CHECK(hsa_amd_memory_pool_allocate(pool.pool, size_bytes, 0, &address));
  HSA_CHECK(hsa_amd_agents_allow_access(static_cast<std::uint32_t>(system.gpus.size()), system.gpus.data(),
                                        nullptr, address));
  return address;
}

inline hsa_signal_t make_signal(hsa_signal_value_t value) {
  hsa_signal_t signal{};
  HSA_CHECK(hsa_signal_create(value, 0, nullptr, &signal));
  return signal;
}

inline void wait_for_zero(hsa_signal_t signal) {
  while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) !=
         0) {
  }
}

inline void copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                 std::size_t size_bytes) {
  const hsa_signal_t done = make_signal(1);
  HSA_CHECK(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size_bytes, 0, nullptr, done));
  wait_for_zero(done);
  HSA_CHECK(hsa_signal_destroy(done));
}

inline void fill_pattern(void* address, std::size_t size_bytes, std::uint32_t seed) {
  auto* const bytes = static_cast<std::uint8_t*>(address);
  std::uint32_t state = seed * 2654435761u + 1;
  std::size_t index = 0;
  for (; index + 4 <= size_bytes; index += 4) {
    state = state * 1664525u + 1013904223u;
    std::memcpy(bytes + index, &state, 4);
  }
  for (; index < size_bytes; ++index) bytes[index] = static_cast<std::uint8_t>(state >> (index % 4 * 8));
}

inline int finish() {
  HSA_CHECK(hsa_shut_down());
  std::puts("OK");
  return 0;
}

}  // namespace hsa_client
