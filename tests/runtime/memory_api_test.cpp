// Memory that has one address for its life: pools, access, locking, pointer information, IPC,
// interoperability. Runs on whatever agents there are.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/hsa_fixture.h"

namespace hsa_rt::test {
namespace {

constexpr auto kInvalid = HSA_STATUS_ERROR_INVALID_ARGUMENT;

class MemoryApi : public HsaTest {
 protected:
  static void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = nullptr;
    EXPECT_HSA(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
    return memory;
  }

  static hsa_amd_pointer_info_t info_of(const void* address) {
    hsa_amd_pointer_info_t info{};
    info.size = sizeof(info);
    EXPECT_HSA(hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr));
    return info;
  }

  static std::vector<uint64_t> accessible_to(const void* address) {
    hsa_amd_pointer_info_t info{};
    info.size = sizeof(info);
    uint32_t count = 0;
    hsa_agent_t* agents = nullptr;
    EXPECT_HSA(hsa_amd_pointer_info(address, &info, ::malloc, &count, &agents));
    std::vector<uint64_t> handles;
    for (uint32_t i = 0; i < count; ++i) handles.push_back(agents[i].handle);
    ::free(agents);
    return handles;
  }

  static bool contains(const std::vector<uint64_t>& handles, hsa_agent_t agent) {
    return std::ranges::find(handles, agent.handle) != handles.end();
  }

  std::vector<hsa_agent_t> all_agents() {
    std::vector<hsa_agent_t> agents = cpus;
    agents.insert(agents.end(), gpus.begin(), gpus.end());
    agents.insert(agents.end(), npus.begin(), npus.end());
    return agents;
  }
};

TEST_F(MemoryApi, EveryPoolThatAllowsItAllocatesAndFrees) {
  for (const hsa_agent_t agent : all_agents()) {
    for (const hsa_amd_memory_pool_t pool : pools_of(agent)) {
      if (!pool_info<bool>(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED)) {
        void* memory = nullptr;
        EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, kPage, 0, &memory), HSA_STATUS_ERROR_INVALID_ALLOCATION);
        continue;
      }
      for (const size_t size : {size_t{1}, kPage, 3 * kPage + 5, size_t{4} << 20}) {
        auto* memory = static_cast<char*>(allocate(pool, size));
        ASSERT_NE(memory, nullptr);
        const hsa_amd_pointer_info_t info = info_of(memory + size - 1);
        EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_HSA);
        EXPECT_EQ(info.agentBaseAddress, memory);
        EXPECT_EQ(info.sizeInBytes, size);
        EXPECT_EQ(info.agentOwner.handle, agent.handle);
        if (info.hostBaseAddress != nullptr) std::memset(memory, 0x33, size);
        EXPECT_HSA(hsa_amd_memory_pool_free(memory));
        EXPECT_EQ(hsa_amd_memory_pool_free(memory), HSA_STATUS_ERROR_INVALID_ALLOCATION);
        EXPECT_EQ(info_of(memory).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
      }
    }
  }
}

TEST_F(MemoryApi, AllocationChecksItsArguments) {
  const hsa_amd_memory_pool_t pool = fine_pool(cpus[0]);
  void* memory = nullptr;
  EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, 0, 0, &memory), kInvalid);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, kPage, 0, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_memory_pool_allocate({0}, kPage, 0, &memory), HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  EXPECT_EQ(hsa_amd_memory_pool_allocate({cpus[0].handle}, kPage, 0, &memory),
            HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, SIZE_MAX, 0, &memory), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_HSA(hsa_amd_memory_pool_free(nullptr));
  int on_stack = 0;
  EXPECT_EQ(hsa_amd_memory_pool_free(&on_stack), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(MemoryApi, PoolInfoAnswersEveryAttribute) {
  for (const hsa_agent_t agent : all_agents()) {
    for (const hsa_amd_memory_pool_t pool : pools_of(agent)) {
      pool_info<hsa_amd_segment_t>(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT);
      const bool allowed = pool_info<bool>(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED);
      const auto granule = pool_info<size_t>(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE);
      EXPECT_EQ(granule, allowed ? kPage : 0u);
      EXPECT_EQ(pool_info<bool>(pool, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL),
                agent.handle == cpus[0].handle);
      uint64_t value = 0;
      EXPECT_EQ(hsa_amd_memory_pool_get_info(pool, static_cast<hsa_amd_memory_pool_info_t>(99), &value),
                kInvalid);
      EXPECT_EQ(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, nullptr), kInvalid);
      for (const hsa_agent_t other : all_agents()) {
        hsa_amd_memory_pool_access_t access{};
        EXPECT_HSA(
            hsa_amd_agent_memory_pool_get_info(other, pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
        if (other.handle == agent.handle) {
          EXPECT_EQ(access, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
        }
      }
    }
  }
}

TEST_F(MemoryApi, AllowAccessReplacesTheListButNotTheOwner) {
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  void* memory = allocate(coarse_pool(gpus[0]), kPage);
  EXPECT_TRUE(contains(accessible_to(memory), gpus[0]));
  EXPECT_FALSE(contains(accessible_to(memory), gpus[1]));
  ASSERT_HSA(hsa_amd_agents_allow_access(1, &gpus[1], nullptr, memory));
  EXPECT_TRUE(contains(accessible_to(memory), gpus[0]));
  EXPECT_TRUE(contains(accessible_to(memory), gpus[1]));
  ASSERT_HSA(hsa_amd_agents_allow_access(1, &gpus[0], nullptr, memory));
  EXPECT_TRUE(contains(accessible_to(memory), gpus[0]));
  EXPECT_FALSE(contains(accessible_to(memory), gpus[1]));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(MemoryApi, AllowAccessChecksItsArguments) {
  auto* memory = static_cast<char*>(allocate(fine_pool(cpus[0]), 2 * kPage));
  const uint32_t flags = 0;
  const hsa_agent_t bogus{77};
  EXPECT_EQ(hsa_amd_agents_allow_access(0, cpus.data(), nullptr, memory), kInvalid);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, nullptr, nullptr, memory), kInvalid);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, cpus.data(), &flags, memory), kInvalid);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, cpus.data(), nullptr, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, &bogus, nullptr, memory), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_agents_allow_access(1, cpus.data(), nullptr, memory + kPage),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(MemoryApi, AllowAccessOnAVmemMappingReachesThatMappingOnly) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  hsa_amd_vmem_alloc_handle_t handle{0};
  ASSERT_HSA(hsa_amd_vmem_handle_create(coarse_pool(gpus[0]), kPage, MEMORY_TYPE_NONE, 0, &handle));
  void* va = nullptr;
  ASSERT_HSA(hsa_amd_vmem_address_reserve(&va, 2 * kPage, 0, 0));
  char* const second = static_cast<char*>(va) + kPage;
  ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
  ASSERT_HSA(hsa_amd_vmem_map(second, kPage, 0, handle, 0));
  ASSERT_HSA(hsa_amd_agents_allow_access(1, gpus.data(), nullptr, static_cast<char*>(va) + 8));
  hsa_access_permission_t permission{};
  ASSERT_HSA(hsa_amd_vmem_get_access(va, &permission, gpus[0]));
  EXPECT_EQ(permission, HSA_ACCESS_PERMISSION_RW);
  ASSERT_HSA(hsa_amd_vmem_get_access(second, &permission, gpus[0]));
  EXPECT_EQ(permission, HSA_ACCESS_PERMISSION_NONE);
  ASSERT_HSA(hsa_amd_vmem_unmap(va, 2 * kPage));
  ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
  ASSERT_HSA(hsa_amd_vmem_address_free(va, 2 * kPage));
}

TEST_F(MemoryApi, PointerInfoKnowsReservedAndMappedAddresses) {
  void* va = nullptr;
  ASSERT_HSA(hsa_amd_vmem_address_reserve(&va, 2 * kPage, 0, 0));
  EXPECT_EQ(info_of(va).type, HSA_EXT_POINTER_TYPE_RESERVED_ADDR);
  EXPECT_EQ(info_of(va).sizeInBytes, 2 * kPage);
  ASSERT_HSA(hsa_amd_vmem_address_free(va, 2 * kPage));
  EXPECT_EQ(info_of(va).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
  hsa_amd_pointer_info_t uninitialised{};
  EXPECT_EQ(hsa_amd_pointer_info(va, &uninitialised, nullptr, nullptr, nullptr), kInvalid);
}

TEST_F(MemoryApi, UserDataStaysWithTheAllocation) {
  void* memory = allocate(fine_pool(cpus[0]), kPage);
  int tag = 0;
  ASSERT_HSA(hsa_amd_pointer_info_set_userdata(memory, &tag));
  EXPECT_EQ(info_of(memory).userData, &tag);
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
  EXPECT_EQ(hsa_amd_pointer_info_set_userdata(memory, &tag), kInvalid);
}

TEST_F(MemoryApi, DeallocationCallbacksRunOnceAndMayUseMemory) {
  static std::atomic<int> calls{0};
  calls = 0;
  auto* memory = static_cast<char*>(allocate(fine_pool(cpus[0]), kPage));
  const auto callback = [](void*, void* data) {
    ++calls;
    void* other = nullptr;
    if (hsa_amd_memory_pool_allocate(*static_cast<hsa_amd_memory_pool_t*>(data), kPage, 0, &other) ==
        HSA_STATUS_SUCCESS) {
      hsa_amd_memory_pool_free(other);
    }
  };
  hsa_amd_memory_pool_t pool = fine_pool(cpus[0]);
  ASSERT_HSA(hsa_amd_register_deallocation_callback(memory + 16, callback, &pool));
  ASSERT_HSA(hsa_amd_register_deallocation_callback(memory, callback, &pool));
  ASSERT_HSA(hsa_amd_deregister_deallocation_callback(memory, callback));
  EXPECT_EQ(hsa_amd_deregister_deallocation_callback(memory, callback), kInvalid);
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(hsa_amd_register_deallocation_callback(memory, callback, &pool),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(MemoryApi, RegionsAreThePoolsOfOldPrograms) {
  struct Found {
    hsa_region_t global{0};
    int count = 0;
  } found;
  const hsa_agent_t agent = gpus.empty() ? cpus[0] : gpus[0];
  ASSERT_HSA(hsa_agent_iterate_regions(
      agent,
      [](hsa_region_t region, void* data) {
        auto& list = *static_cast<Found*>(data);
        ++list.count;
        uint32_t flags = 0;
        EXPECT_HSA(hsa_region_get_info(region, HSA_REGION_INFO_GLOBAL_FLAGS, &flags));
        if ((flags & HSA_REGION_GLOBAL_FLAG_FINE_GRAINED) != 0) list.global = region;
        return HSA_STATUS_SUCCESS;
      },
      &found));
  EXPECT_GT(found.count, 1);
  void* memory = nullptr;
  ASSERT_HSA(hsa_memory_allocate(found.global, 100, &memory));
  EXPECT_HSA(hsa_memory_free(memory));
  EXPECT_EQ(hsa_memory_allocate({0}, 100, &memory), HSA_STATUS_ERROR_INVALID_REGION);
}

TEST_F(MemoryApi, LockedMemoryIsTheUsersOwnPages) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  std::vector<char> host(3 * kPage);
  char* const source = host.data() + 100;
  constexpr size_t kSize = 2 * kPage;
  void* seen = nullptr;
  ASSERT_HSA(hsa_amd_memory_lock(source, kSize, nullptr, 0, &seen));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen) % kPage, reinterpret_cast<uintptr_t>(source) % kPage);
  EXPECT_EQ(info_of(source).type, HSA_EXT_POINTER_TYPE_LOCKED);
  EXPECT_EQ(info_of(seen).hostBaseAddress, source);
  EXPECT_EQ(info_of(seen).agentOwner.handle, cpus[0].handle);
  auto* target = static_cast<char*>(allocate_shared(kSize));
  for (const hsa_agent_t gpu : gpus) {
    std::memset(source, 0x77, kSize);
    copy_on(gpu, target, seen, kSize);
    EXPECT_EQ(target[kSize - 1], 0x77);
    std::memset(target, 0x11, kSize);
    copy_on(gpu, seen, target, kSize);
    EXPECT_EQ(source[kSize - 1], 0x11);
  }
  EXPECT_HSA(hsa_amd_memory_unlock(source));
  EXPECT_EQ(info_of(source).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
}

TEST_F(MemoryApi, LocksNestAndNeedAsManyUnlocks) {
  std::vector<char> host(2 * kPage);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_HSA(hsa_amd_memory_lock(host.data(), host.size(), nullptr, 0, &first));
  ASSERT_HSA(hsa_amd_memory_lock(host.data(), host.size(), nullptr, 0, &second));
  EXPECT_EQ(first, second);
  EXPECT_HSA(hsa_amd_memory_unlock(host.data()));
  EXPECT_EQ(info_of(host.data()).type, HSA_EXT_POINTER_TYPE_LOCKED);
  EXPECT_HSA(hsa_amd_memory_unlock(host.data()));
  EXPECT_EQ(hsa_amd_memory_unlock(host.data()), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(MemoryApi, LockingForTheCpuAloneChangesNothing) {
  std::vector<char> host(kPage);
  void* seen = nullptr;
  ASSERT_HSA(hsa_amd_memory_lock(host.data(), host.size(), &cpus[0], 1, &seen));
  EXPECT_EQ(seen, host.data());
  EXPECT_HSA(hsa_amd_memory_unlock(host.data()));
}

TEST_F(MemoryApi, TheNpuUsesLockedMemoryWhereItIs) {
  if (npus.empty()) GTEST_SKIP() << "needs an NPU";
  std::vector<char> host(2 * kPage);
  void* seen = nullptr;
  ASSERT_HSA(hsa_amd_memory_lock(host.data(), host.size(), &npus[0], 1, &seen));
  EXPECT_EQ(seen, host.data());
  EXPECT_HSA(hsa_amd_memory_unlock(host.data()));
}

TEST_F(MemoryApi, LockingChecksItsArguments) {
  std::vector<char> host(kPage);
  void* seen = &host;
  hsa_agent_t bogus{5};
  EXPECT_EQ(hsa_amd_memory_lock(nullptr, kPage, nullptr, 0, &seen), kInvalid);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), 0, nullptr, 0, &seen), kInvalid);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), kPage, nullptr, 0, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), kPage, nullptr, 1, &seen), kInvalid);
  EXPECT_EQ(seen, nullptr);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), kPage, cpus.data(), 0, &seen), kInvalid);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), kPage, &bogus, 1, &seen), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_memory_lock(host.data(), SIZE_MAX, nullptr, 0, &seen), kInvalid);
  EXPECT_EQ(hsa_amd_memory_lock_to_pool(host.data(), kPage, nullptr, 0, {0}, 0, &seen),
            HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  EXPECT_EQ(hsa_amd_memory_lock_to_pool(host.data(), kPage, nullptr, 0, fine_pool(cpus[0]), 1, &seen),
            kInvalid);
  if (!gpus.empty()) {
    EXPECT_EQ(hsa_amd_memory_lock_to_pool(host.data(), kPage, nullptr, 0, coarse_pool(gpus[0]), 0, &seen),
              HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
  }
  ASSERT_HSA(hsa_amd_memory_lock_to_pool(host.data(), kPage, nullptr, 0, fine_pool(cpus[0]), 0, &seen));
  EXPECT_HSA(hsa_amd_memory_unlock(host.data()));
}

TEST_F(MemoryApi, LockingPagesThatAreNotThereFails) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  void* hole = ::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(hole, kPage), 0);
  void* seen = hole;
  EXPECT_EQ(hsa_amd_memory_lock(hole, kPage, nullptr, 0, &seen), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(seen, nullptr);
}

TEST_F(MemoryApi, ExportedAllocationsTellTheirOffset) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  auto* memory = static_cast<char*>(allocate(coarse_pool(gpus[0]), 4 * kPage));
  int fd = -1;
  uint64_t offset = 0;
  ASSERT_HSA(hsa_amd_portable_export_dmabuf(memory + kPage, kPage, &fd, &offset));
  EXPECT_EQ(offset, kPage);
  EXPECT_EQ(::lseek(fd, 0, SEEK_END), static_cast<off_t>(4 * kPage));
  EXPECT_HSA(hsa_amd_portable_close_dmabuf(fd));
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(memory, 5 * kPage, &fd, &offset),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(memory, 0, &fd, &offset), kInvalid);
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(memory, kPage, nullptr, &offset), kInvalid);
  EXPECT_EQ(hsa_amd_portable_export_dmabuf_v2(memory, kPage, &fd, &offset, 2), kInvalid);
  void* host = allocate(fine_pool(cpus[0]), kPage);
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(host, kPage, &fd, &offset), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_HSA(hsa_amd_memory_pool_free(host));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(MemoryApi, InteropMapsAForeignBufferAndForgetsIt) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  void* memory = allocate(coarse_pool(gpus[0]), 2 * kPage);
  std::memset(memory, 0x21, 2 * kPage);
  int fd = -1;
  uint64_t offset = 0;
  ASSERT_HSA(hsa_amd_portable_export_dmabuf(memory, 2 * kPage, &fd, &offset));
  const int before = open_fd_count();
  void* mapped = nullptr;
  size_t size = 0;
  ASSERT_HSA(hsa_amd_interop_map_buffer(1, gpus.data(), fd, 0, &size, &mapped, nullptr, nullptr));
  EXPECT_EQ(open_fd_count(), before);
  EXPECT_EQ(size, 2 * kPage);
  EXPECT_EQ(info_of(mapped).type, HSA_EXT_POINTER_TYPE_GRAPHICS);
  auto* target = static_cast<char*>(allocate_shared(kPage));
  copy_on(gpus[0], target, mapped, kPage);
  EXPECT_EQ(target[kPage - 1], 0x21);
  // An imported buffer is not one of ours to export.
  int other_fd = -1;
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(mapped, kPage, &other_fd, &offset),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  ASSERT_HSA(hsa_amd_interop_unmap_buffer(mapped));
  EXPECT_EQ(info_of(mapped).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
  EXPECT_EQ(hsa_amd_interop_unmap_buffer(mapped), kInvalid);
  EXPECT_HSA(hsa_amd_interop_unmap_buffer(nullptr));
  EXPECT_EQ(hsa_amd_interop_map_buffer(1, cpus.data(), fd, 0, &size, &mapped, nullptr, nullptr),
            HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_interop_map_buffer(1, gpus.data(), fd, 1, &size, &mapped, nullptr, nullptr), kInvalid);
  EXPECT_HSA(hsa_amd_portable_close_dmabuf(fd));
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

class IpcApi : public MemoryApi {
 protected:
  // A pool whose memory another process can take part in.
  hsa_amd_memory_pool_t shareable_pool() {
    if (!gpus.empty()) return coarse_pool(gpus[0]);
    return npus.empty() ? hsa_amd_memory_pool_t{0} : coarse_pool(npus[0]);
  }
};

TEST_F(IpcApi, AnotherProcessAttachesAndWrites) {
  if (shareable_pool().handle == 0) GTEST_SKIP() << "needs a device";
  auto* memory = static_cast<char*>(allocate(shareable_pool(), 2 * kPage));
  std::strcpy(memory, "hello");
  hsa_amd_ipc_memory_t handle{};
  ASSERT_HSA(hsa_amd_ipc_memory_create(memory, 2 * kPage, &handle));
  EXPECT_EQ(in_child([&] {
              if (hsa_init() != HSA_STATUS_SUCCESS) return 1;
              void* mine = nullptr;
              // No agents named: the owner and the CPU get access.
              if (hsa_amd_ipc_memory_attach(&handle, 2 * kPage, 0, nullptr, &mine) != HSA_STATUS_SUCCESS)
                return 2;
              void* again = nullptr;
              if (hsa_amd_ipc_memory_attach(&handle, 2 * kPage, 0, nullptr, &again) != HSA_STATUS_SUCCESS)
                return 3;
              if (again == mine) return 4;
              if (std::strcmp(static_cast<char*>(mine), "hello") != 0) return 5;
              std::strcpy(static_cast<char*>(again) + kPage, "world");
              if (hsa_amd_ipc_memory_detach(again) != HSA_STATUS_SUCCESS) return 6;
              if (hsa_amd_ipc_memory_detach(again) != HSA_STATUS_ERROR_INVALID_ARGUMENT) return 7;
              if (hsa_amd_ipc_memory_detach(mine) != HSA_STATUS_SUCCESS) return 8;
              return hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 9;
            }),
            0);
  EXPECT_STREQ(memory + kPage, "world");
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(IpcApi, TheExporterMayFreeFirst) {
  if (shareable_pool().handle == 0) GTEST_SKIP() << "needs a device";
  auto* memory = static_cast<char*>(allocate(shareable_pool(), kPage));
  std::strcpy(memory, "mine");
  hsa_amd_ipc_memory_t handle{};
  ASSERT_HSA(hsa_amd_ipc_memory_create(memory, kPage, &handle));
  void* attached = nullptr;
  ASSERT_HSA(hsa_amd_ipc_memory_attach(&handle, kPage, 0, nullptr, &attached));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
  EXPECT_STREQ(static_cast<char*>(attached), "mine");
  // The handle is no longer good, also when other memory has the address now.
  void* other = allocate(shareable_pool(), kPage);
  void* second = nullptr;
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&handle, kPage, 0, nullptr, &second), kInvalid);
  EXPECT_HSA(hsa_amd_memory_pool_free(other));
  EXPECT_HSA(hsa_amd_ipc_memory_detach(attached));
}

TEST_F(IpcApi, ArgumentsAreChecked) {
  if (shareable_pool().handle == 0) GTEST_SKIP() << "needs a device";
  auto* memory = static_cast<char*>(allocate(shareable_pool(), 2 * kPage));
  hsa_amd_ipc_memory_t handle{};
  void* attached = nullptr;
  EXPECT_EQ(hsa_amd_ipc_memory_create(memory + kPage, kPage, &handle), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_create(memory, kPage, &handle), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_create(memory, 0x7FFFFFFF001, &handle), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_create(memory, 2 * kPage, nullptr), kInvalid);
  ASSERT_HSA(hsa_amd_ipc_memory_create(memory, 2 * kPage, &handle));
  EXPECT_EQ(hsa_amd_ipc_memory_attach(nullptr, 2 * kPage, 0, nullptr, &attached), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&handle, kPage, 0, nullptr, &attached), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&handle, 2 * kPage, 1, nullptr, &attached), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&handle, 2 * kPage, 0, nullptr, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(memory), kInvalid);
  const int before = open_fd_count();
  hsa_amd_ipc_memory_t forged = handle;
  forged.handle[4] ^= 1;  // the key
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&forged, 2 * kPage, 0, nullptr, &attached), kInvalid);
  forged = {};
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&forged, 2 * kPage, 0, nullptr, &attached), kInvalid);
  // The exporter is this process too: its thread closes its end of a refused connection when it gets to it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (open_fd_count() > before && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(open_fd_count(), before);
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(IpcApi, AttachGivesAccessToAllAgentsNamed) {
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  auto* memory = static_cast<char*>(allocate(coarse_pool(gpus[0]), kPage));
  std::memset(memory, 5, kPage);
  hsa_amd_ipc_memory_t handle{};
  ASSERT_HSA(hsa_amd_ipc_memory_create(memory, kPage, &handle));
  void* attached = nullptr;
  ASSERT_HSA(hsa_amd_ipc_memory_attach(&handle, kPage, 2, gpus.data(), &attached));
  EXPECT_EQ(info_of(attached).type, HSA_EXT_POINTER_TYPE_IPC);
  EXPECT_HSA(hsa_amd_agents_allow_access(2, gpus.data(), nullptr, attached));
  auto* target = static_cast<char*>(allocate_shared(kPage));
  for (const hsa_agent_t gpu : gpus) {
    std::memset(target, 0, kPage);
    copy_on(gpu, target, attached, kPage);
    EXPECT_EQ(target[0], 5);
  }
  EXPECT_HSA(hsa_amd_ipc_memory_detach(attached));
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

}  // namespace
}  // namespace hsa_rt::test
