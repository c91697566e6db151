// What the tests of the C API share: a runtime that is up, the agents of whatever machine this is, and memory
// to play with. Nothing here is about a particular machine: a test asks for the agents it needs and skips
// where there are none.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "understudy/hsa_ext_vmem.h"

namespace hsa_rt::test {

constexpr size_t kPage = 4096;

#define ASSERT_HSA(expression) ASSERT_EQ(expression, HSA_STATUS_SUCCESS)
#define EXPECT_HSA(expression) EXPECT_EQ(expression, HSA_STATUS_SUCCESS)

template <class T, class Attribute>
T agent_info(hsa_agent_t agent, Attribute attribute) {
  T value{};
  EXPECT_HSA(hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(attribute), &value));
  return value;
}

template <class T>
T pool_info(hsa_amd_memory_pool_t pool, hsa_amd_memory_pool_info_t attribute) {
  T value{};
  EXPECT_HSA(hsa_amd_memory_pool_get_info(pool, attribute, &value));
  return value;
}

inline std::vector<hsa_agent_t> agents_of_type(hsa_device_type_t type) {
  struct Search {
    hsa_device_type_t type;
    std::vector<hsa_agent_t> found;
  } search{type, {}};
  EXPECT_HSA(hsa_iterate_agents(
      [](hsa_agent_t agent, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (agent_info<hsa_device_type_t>(agent, HSA_AGENT_INFO_DEVICE) == wanted.type)
          wanted.found.push_back(agent);
        return HSA_STATUS_SUCCESS;
      },
      &search));
  return search.found;
}

inline std::vector<hsa_amd_memory_pool_t> pools_of(hsa_agent_t agent) {
  std::vector<hsa_amd_memory_pool_t> pools;
  EXPECT_HSA(hsa_amd_agent_iterate_memory_pools(
      agent,
      [](hsa_amd_memory_pool_t pool, void* data) {
        static_cast<std::vector<hsa_amd_memory_pool_t>*>(data)->push_back(pool);
        return HSA_STATUS_SUCCESS;
      },
      &pools));
  return pools;
}

// The agent's pool with this global flag, preferring one without the kernarg flag unless that is what was
// asked for.
inline hsa_amd_memory_pool_t pool_with_flag(hsa_agent_t agent, uint32_t flag) {
  hsa_amd_memory_pool_t found{0};
  for (const hsa_amd_memory_pool_t pool : pools_of(agent)) {
    const auto flags = pool_info<uint32_t>(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS);
    if ((flags & flag) == 0) continue;
    const bool kernarg = (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) != 0;
    if (found.handle == 0 || !kernarg) found = pool;
  }
  return found;
}

inline hsa_amd_memory_pool_t coarse_pool(hsa_agent_t agent) {
  return pool_with_flag(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
}
inline hsa_amd_memory_pool_t fine_pool(hsa_agent_t agent) {
  return pool_with_flag(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
}

int open_fd_count();
// What /proc/self/maps says of the page: "rw-", "---", or "" when nothing is mapped there.
std::string protection_at(const void* address);

// Runs `body` in a forked child and returns its exit status; 255 when it was killed.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

class HsaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_HSA(hsa_init());
    cpus = agents_of_type(HSA_DEVICE_TYPE_CPU);
    gpus = agents_of_type(HSA_DEVICE_TYPE_GPU);
    npus = agents_of_type(HSA_DEVICE_TYPE_AIE);
    ASSERT_FALSE(cpus.empty());
  }
  void TearDown() override { EXPECT_HSA(hsa_shut_down()); }

  // A signal of value 1 and what waiting for it to become 0 returns.
  static hsa_signal_t make_signal(hsa_signal_value_t value = 1) {
    hsa_signal_t signal{0};
    EXPECT_HSA(hsa_signal_create(value, 0, nullptr, &signal));
    return signal;
  }
  static void wait_for_zero(hsa_signal_t signal) {
    EXPECT_EQ(hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 0, kTimeout, HSA_WAIT_STATE_BLOCKED),
              0);
  }

  // A copy by the given GPU, waited for.
  static void copy_on(hsa_agent_t gpu, void* destination, const void* source, size_t size) {
    const hsa_signal_t done = make_signal();
    ASSERT_HSA(hsa_amd_memory_async_copy(destination, gpu, source, gpu, size, 0, nullptr, done));
    wait_for_zero(done);
    EXPECT_HSA(hsa_signal_destroy(done));
  }

  // Host memory that the CPU and all GPUs can use.
  void* allocate_shared(size_t size) {
    void* memory = nullptr;
    EXPECT_HSA(hsa_amd_memory_pool_allocate(fine_pool(cpus[0]), size, 0, &memory));
    if (!gpus.empty()) {
      EXPECT_HSA(
          hsa_amd_agents_allow_access(static_cast<uint32_t>(gpus.size()), gpus.data(), nullptr, memory));
    }
    std::memset(memory, 0, size);
    return memory;
  }

  static constexpr uint64_t kTimeout =
      60'000'000'000;  // in ticks of 1 ns; reached only when something is broken

  std::vector<hsa_agent_t> cpus, gpus, npus;
};

}  // namespace hsa_rt::test
