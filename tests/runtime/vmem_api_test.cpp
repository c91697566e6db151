// The vmem API as programs see it. Compiled once, against the headers and the shared library only; runs on a
// GPU, on an NPU, on both, or on a machine with neither, and tests what there is.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "tests/runtime/hsa_fixture.h"

namespace hsa_rt::test {
namespace {

constexpr hsa_access_permission_t kNone = HSA_ACCESS_PERMISSION_NONE;
constexpr hsa_access_permission_t kReadOnly = HSA_ACCESS_PERMISSION_RO;
constexpr hsa_access_permission_t kReadWrite = HSA_ACCESS_PERMISSION_RW;

class VmemApi : public HsaTest {
 protected:
  void SetUp() override {
    HsaTest::SetUp();
    for (const auto* group : {&gpus, &npus, &cpus}) {
      for (const hsa_agent_t agent : *group) {
        if (coarse_pool(agent).handle != 0) owners.push_back(agent);
      }
    }
  }

  static char* at(void* va, size_t offset) { return static_cast<char*>(va) + offset; }

  static void* reserve(size_t size) {
    void* va = nullptr;
    EXPECT_HSA(hsa_amd_vmem_address_reserve(&va, size, 0, 0));
    return va;
  }

  static hsa_amd_vmem_alloc_handle_t create(hsa_agent_t owner, size_t size) {
    hsa_amd_vmem_alloc_handle_t handle{0};
    EXPECT_HSA(hsa_amd_vmem_handle_create(coarse_pool(owner), size, MEMORY_TYPE_NONE, 0, &handle));
    return handle;
  }

  static hsa_status_t allow(void* va, size_t size, hsa_agent_t agent, hsa_access_permission_t permission) {
    const hsa_amd_memory_access_desc_t access{permission, agent};
    return hsa_amd_vmem_set_access(va, size, &access, 1);
  }

  static hsa_access_permission_t access_of(void* va, hsa_agent_t agent) {
    hsa_access_permission_t permission = kNone;
    EXPECT_HSA(hsa_amd_vmem_get_access(va, &permission, agent));
    return permission;
  }

  static void tear_down(void* va, size_t size, hsa_amd_vmem_alloc_handle_t handle) {
    EXPECT_HSA(hsa_amd_vmem_unmap(va, size));
    EXPECT_HSA(hsa_amd_vmem_handle_release(handle));
    EXPECT_HSA(hsa_amd_vmem_address_free(va, size));
  }

  // Everybody who can use memory of `owner`.
  std::vector<hsa_agent_t> accessors_of(hsa_agent_t owner) {
    std::vector<hsa_agent_t> accessors = cpus;
    // Memory of a machine without devices is nothing that a device could import.
    if (owner.handle == cpus[0].handle && gpus.empty() && npus.empty()) return accessors;
    accessors.insert(accessors.end(), gpus.begin(), gpus.end());
    accessors.insert(accessors.end(), npus.begin(), npus.end());
    return accessors;
  }

  std::vector<hsa_agent_t> owners;
};

TEST_F(VmemApi, TheWholeLifeOfAMapping) {
  for (const hsa_agent_t owner : owners) {
    void* va = reserve(4 * kPage);
    const auto handle = create(owner, 4 * kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, 4 * kPage, 0, handle, 0));
    for (const hsa_agent_t agent : accessors_of(owner)) {
      EXPECT_EQ(access_of(va, agent), kNone);
      ASSERT_HSA(allow(va, 4 * kPage, agent, kReadWrite));
      EXPECT_EQ(access_of(va, agent), kReadWrite);
    }
    std::memset(va, 0x5a, 4 * kPage);
    EXPECT_EQ(*at(va, 4 * kPage - 1), 0x5a);
    tear_down(va, 4 * kPage, handle);
    EXPECT_EQ(protection_at(va), "");
  }
}

TEST_F(VmemApi, EveryGpuReadsAndWritesWhatTheCpuSees) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  auto* staging = static_cast<char*>(allocate_shared(kPage));
  for (const hsa_agent_t owner : owners) {
    for (const hsa_agent_t gpu : gpus) {
      void* va = reserve(kPage);
      const auto handle = create(owner, kPage);
      ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
      ASSERT_HSA(allow(va, kPage, cpus[0], kReadWrite));
      ASSERT_HSA(allow(va, kPage, gpu, kReadWrite));
      std::memset(va, 1, kPage);
      copy_on(gpu, staging, va, kPage);
      EXPECT_EQ(std::count(staging, staging + kPage, 1), static_cast<long>(kPage));
      std::memset(staging, 2, kPage);
      copy_on(gpu, va, staging, kPage);
      EXPECT_EQ(std::count(at(va, 0), at(va, kPage), 2), static_cast<long>(kPage));
      tear_down(va, kPage, handle);
    }
  }
  EXPECT_HSA(hsa_amd_memory_pool_free(staging));
}

TEST_F(VmemApi, GpuMemoryIsMappedForTheNpuAndBack) {
  if (gpus.empty() || npus.empty()) GTEST_SKIP() << "needs a GPU and an NPU";
  auto* staging = static_cast<char*>(allocate_shared(kPage));
  for (const hsa_agent_t owner : {gpus[0], npus[0]}) {
    void* va = reserve(kPage);
    const auto handle = create(owner, kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
    const hsa_amd_memory_access_desc_t both[] = {{kReadWrite, npus[0]}, {kReadWrite, gpus[0]}};
    ASSERT_HSA(hsa_amd_vmem_set_access(va, kPage, both, 2));
    // The NPU follows the process's page tables: what it may write, the process can write.
    EXPECT_EQ(protection_at(va), "rw-");
    EXPECT_EQ(access_of(va, cpus[0]), kNone);
    std::memset(va, 3, kPage);
    copy_on(gpus[0], staging, va, kPage);
    EXPECT_EQ(std::count(staging, staging + kPage, 3), static_cast<long>(kPage));
    std::memset(staging, 4, kPage);
    copy_on(gpus[0], va, staging, kPage);
    EXPECT_EQ(std::count(at(va, 0), at(va, kPage), 4), static_cast<long>(kPage));
    tear_down(va, kPage, handle);
  }
  EXPECT_HSA(hsa_amd_memory_pool_free(staging));
}

TEST_F(VmemApi, CpuAndNpuMayHaveDifferentPermissions) {
  if (npus.empty()) GTEST_SKIP() << "needs an NPU";
  void* va = reserve(kPage);
  const auto handle = create(npus[0], kPage);
  ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
  const hsa_amd_memory_access_desc_t mixed[] = {{kReadWrite, npus[0]}, {kReadOnly, cpus[0]}};
  ASSERT_HSA(hsa_amd_vmem_set_access(va, kPage, mixed, 2));
  EXPECT_EQ(access_of(va, npus[0]), kReadWrite);
  EXPECT_EQ(access_of(va, cpus[0]), kReadOnly);
  ASSERT_HSA(allow(va, kPage, npus[0], kNone));
  EXPECT_EQ(protection_at(va), "r--");
  ASSERT_HSA(allow(va, kPage, cpus[0], kNone));
  EXPECT_EQ(protection_at(va), "---");
  tear_down(va, kPage, handle);
}

TEST_F(VmemApi, ManyHandlesSideBySideInATebibyte) {
  constexpr size_t kTebibyte = size_t{1} << 40;
  constexpr size_t kCount = 64;
  for (const hsa_agent_t owner : owners) {
    void* va = reserve(kTebibyte);
    std::vector<hsa_amd_vmem_alloc_handle_t> handles;
    for (size_t i = 0; i < kCount; ++i) {
      handles.push_back(create(owner, kPage));
      ASSERT_HSA(hsa_amd_vmem_map(at(va, i * kPage), kPage, 0, handles.back(), 0));
    }
    // Access for the middle half only.
    ASSERT_HSA(allow(at(va, kCount / 4 * kPage), kCount / 2 * kPage, cpus[0], kReadWrite));
    std::memset(at(va, kCount / 4 * kPage), 9, kCount / 2 * kPage);
    EXPECT_EQ(protection_at(at(va, (kCount / 4 - 1) * kPage)), "---");
    EXPECT_EQ(protection_at(at(va, kCount * 3 / 4 * kPage)), "---");
    EXPECT_EQ(access_of(at(va, 0), cpus[0]), kNone);
    // One call takes several mappings away.
    ASSERT_HSA(hsa_amd_vmem_unmap(va, kCount / 2 * kPage));
    ASSERT_HSA(hsa_amd_vmem_unmap(at(va, kCount / 2 * kPage), kCount / 2 * kPage));
    for (const auto handle : handles) EXPECT_HSA(hsa_amd_vmem_handle_release(handle));
    EXPECT_HSA(hsa_amd_vmem_address_free(va, kTebibyte));
  }
}

TEST_F(VmemApi, AMappingOutlivesItsReleasedHandle) {
  for (const hsa_agent_t owner : owners) {
    void* va = reserve(kPage);
    const auto handle = create(owner, kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
    ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    ASSERT_HSA(allow(va, kPage, cpus[0], kReadWrite));
    *at(va, 0) = 7;
    EXPECT_EQ(hsa_amd_vmem_handle_release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    hsa_amd_vmem_alloc_handle_t retained{0};
    ASSERT_HSA(hsa_amd_vmem_retain_alloc_handle(&retained, va));
    EXPECT_EQ(retained.handle, handle.handle);
    EXPECT_EQ(*at(va, 0), 7);
    tear_down(va, kPage, retained);
  }
}

TEST_F(VmemApi, HandlePropertiesNameThePool) {
  for (const hsa_agent_t owner : owners) {
    hsa_amd_vmem_alloc_handle_t handle{0};
    ASSERT_HSA(hsa_amd_vmem_handle_create(coarse_pool(owner), kPage, MEMORY_TYPE_PINNED, 0, &handle));
    hsa_amd_memory_pool_t pool{0};
    hsa_amd_memory_type_t type = MEMORY_TYPE_NONE;
    ASSERT_HSA(hsa_amd_vmem_get_alloc_properties_from_handle(handle, &pool, &type));
    EXPECT_EQ(pool.handle, coarse_pool(owner).handle);
    EXPECT_EQ(type, MEMORY_TYPE_PINNED);
    EXPECT_HSA(hsa_amd_vmem_handle_release(handle));
  }
}

TEST_F(VmemApi, AnOffsetShowsThatPartOfTheMemory) {
  for (const hsa_agent_t owner : owners) {
    void* whole = reserve(4 * kPage);
    void* half = reserve(2 * kPage);
    const auto handle = create(owner, 4 * kPage);
    ASSERT_HSA(hsa_amd_vmem_map(whole, 4 * kPage, 0, handle, 0));
    ASSERT_HSA(hsa_amd_vmem_map(half, 2 * kPage, 2 * kPage, handle, 0));
    ASSERT_HSA(allow(whole, 4 * kPage, cpus[0], kReadWrite));
    ASSERT_HSA(allow(half, 2 * kPage, cpus[0], kReadWrite));
    std::strcpy(at(half, 0), "from the middle");
    EXPECT_STREQ(at(whole, 2 * kPage), "from the middle");
    if (!gpus.empty() && access_of(half, cpus[0]) == kReadWrite) {
      ASSERT_HSA(allow(half, 2 * kPage, gpus[0], kReadWrite));
      auto* staging = static_cast<char*>(allocate_shared(kPage));
      copy_on(gpus[0], staging, half, kPage);
      EXPECT_STREQ(staging, "from the middle");
      EXPECT_HSA(hsa_amd_memory_pool_free(staging));
    }
    EXPECT_HSA(hsa_amd_vmem_unmap(half, 2 * kPage));
    EXPECT_HSA(hsa_amd_vmem_address_free(half, 2 * kPage));
    tear_down(whole, 4 * kPage, handle);
  }
}

TEST_F(VmemApi, AnotherProcessMapsAndWrites) {
  for (const hsa_agent_t owner : owners) {
    if (owner.handle == cpus[0].handle && gpus.empty() && npus.empty()) continue;
    const auto handle = create(owner, 2 * kPage);
    int fd = -1;
    ASSERT_HSA(hsa_amd_vmem_export_shareable_handle(&fd, handle, 0));
    void* va = reserve(2 * kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, 2 * kPage, 0, handle, 0));
    ASSERT_HSA(allow(va, 2 * kPage, cpus[0], kReadWrite));
    std::strcpy(at(va, 0), "from the parent");

    EXPECT_EQ(in_child([&] {
                // The parent's runtime is not the child's.
                if (hsa_amd_vmem_unmap(va, kPage) != HSA_STATUS_ERROR_NOT_INITIALIZED) return 1;
                if (hsa_init() != HSA_STATUS_SUCCESS) return 2;
                hsa_amd_vmem_alloc_handle_t imported{0};
                if (hsa_amd_vmem_import_shareable_handle(fd, &imported) != HSA_STATUS_SUCCESS) return 3;
                ::close(fd);
                void* mine = nullptr;
                if (hsa_amd_vmem_address_reserve(&mine, 2 * kPage, 0, 0) != HSA_STATUS_SUCCESS) return 4;
                if (hsa_amd_vmem_map(mine, 2 * kPage, 0, imported, 0) != HSA_STATUS_SUCCESS) return 5;
                if (allow(mine, 2 * kPage, agents_of_type(HSA_DEVICE_TYPE_CPU)[0], kReadWrite) !=
                    HSA_STATUS_SUCCESS) {
                  return 6;
                }
                if (std::strcmp(at(mine, 0), "from the parent") != 0) return 7;
                std::strcpy(at(mine, kPage), "from the child");
                if (hsa_amd_vmem_unmap(mine, 2 * kPage) != HSA_STATUS_SUCCESS) return 8;
                if (hsa_amd_vmem_handle_release(imported) != HSA_STATUS_SUCCESS) return 9;
                if (hsa_amd_vmem_address_free(mine, 2 * kPage) != HSA_STATUS_SUCCESS) return 10;
                return hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 11;
              }),
              0);
    EXPECT_STREQ(at(va, kPage), "from the child");
    EXPECT_EQ(::close(fd), 0);
    tear_down(va, 2 * kPage, handle);
  }
}

TEST_F(VmemApi, TheSameDescriptorImportedTwiceIsOneHandle) {
  for (const hsa_agent_t owner : owners) {
    if (owner.handle == cpus[0].handle && gpus.empty() && npus.empty()) continue;
    int fd = -1;
    {
      const auto handle = create(owner, 20 * kPage);
      ASSERT_HSA(hsa_amd_vmem_export_shareable_handle(&fd, handle, 0));
      ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
    }
    hsa_amd_vmem_alloc_handle_t first{0};
    hsa_amd_vmem_alloc_handle_t second{0};
    ASSERT_HSA(hsa_amd_vmem_import_shareable_handle(fd, &first));
    ASSERT_HSA(hsa_amd_vmem_import_shareable_handle(fd, &second));
    EXPECT_EQ(first.handle, second.handle);
    EXPECT_EQ(::close(fd), 0);
    void* va = reserve(20 * kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, 10 * kPage, 0, first, 0));
    ASSERT_HSA(hsa_amd_vmem_map(at(va, 10 * kPage), 10 * kPage, 10 * kPage, second, 0));
    ASSERT_HSA(allow(va, 20 * kPage, cpus[0], kReadWrite));
    std::memset(va, 1, 20 * kPage);
    ASSERT_HSA(hsa_amd_vmem_unmap(va, 10 * kPage));
    ASSERT_HSA(hsa_amd_vmem_handle_release(first));
    EXPECT_EQ(*at(va, 19 * kPage), 1);
    ASSERT_HSA(hsa_amd_vmem_unmap(at(va, 10 * kPage), 10 * kPage));
    ASSERT_HSA(hsa_amd_vmem_handle_release(second));
    EXPECT_EQ(hsa_amd_vmem_handle_release(second), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    ASSERT_HSA(hsa_amd_vmem_address_free(va, 20 * kPage));
  }
}

TEST_F(VmemApi, ForeignAndClosedDescriptorsAreIncompatible) {
  hsa_amd_vmem_alloc_handle_t handle{0};
  EXPECT_EQ(hsa_amd_vmem_import_shareable_handle(-1, &handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_vmem_import_shareable_handle(9999, &handle), HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  const int before = open_fd_count();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(hsa_amd_vmem_import_shareable_handle(STDERR_FILENO, &handle),
              HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  }
  EXPECT_EQ(open_fd_count(), before);
}

TEST_F(VmemApi, MappingsKeepNoDescriptors) {
  for (const hsa_agent_t owner : owners) {
    const auto handle = create(owner, kPage);
    void* va = reserve(1000 * kPage);
    const int before = open_fd_count();
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_HSA(hsa_amd_vmem_map(at(va, i * kPage), kPage, 0, handle, 0));
      for (const hsa_agent_t agent : accessors_of(owner)) {
        ASSERT_HSA(allow(at(va, i * kPage), kPage, agent, kReadWrite));
      }
    }
    EXPECT_EQ(open_fd_count(), before);
    tear_down(va, 1000 * kPage, handle);
  }
}

using VmemApiDeathTest = VmemApi;

TEST_F(VmemApiDeathTest, TheCpuCannotTouchWhatItWasNotGiven) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto mapped = [this](hsa_access_permission_t permission) {
    void* va = reserve(kPage);
    EXPECT_HSA(hsa_amd_vmem_map(va, kPage, 0, create(owners[0], kPage), 0));
    if (permission != kNone) {
      EXPECT_HSA(allow(va, kPage, cpus[0], permission));
    }
    return static_cast<volatile char*>(va);
  };
  EXPECT_EXIT((void)*mapped(kNone), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*mapped(kReadOnly) = 1, ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EQ(*mapped(kReadOnly), 0);
}

TEST_F(VmemApiDeathTest, TheCopyEngineFaultsOnReadOnlyMemory) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        void* va = reserve(kPage);
        EXPECT_HSA(hsa_amd_vmem_map(va, kPage, 0, create(gpus[0], kPage), 0));
        EXPECT_HSA(allow(va, kPage, gpus[0], kReadOnly));
        void* source = allocate_shared(kPage);
        EXPECT_HSA(hsa_amd_register_system_event_handler(
            [](const hsa_amd_event_t* event, void* expected) {
              const auto& fault = event->memory_fault;
              const bool read_only = (fault.fault_reason_mask & HSA_AMD_MEMORY_FAULT_READ_ONLY) != 0;
              const bool here = fault.virtual_address == reinterpret_cast<uint64_t>(expected);
              ::_exit(read_only && here ? 42 : 43);
              return HSA_STATUS_SUCCESS;
            },
            va));
        copy_on(gpus[0], va, source, kPage);
        ::_exit(44);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(VmemApiDeathTest, AFaultNobodyHandlesEndsTheProgram) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        void* va = reserve(kPage);
        void* target = allocate_shared(kPage);
        copy_on(gpus[0], target, va, kPage);
      },
      ::testing::KilledBySignal(SIGABRT), "Memory access fault by gfx.*page not present");
}

TEST_F(VmemApi, ArgumentsAreCheckedBeforeAnythingHappens) {
  void* va = reserve(4 * kPage);
  const auto handle = create(owners[0], 2 * kPage);
  const hsa_amd_memory_pool_t pool = coarse_pool(owners[0]);
  const hsa_agent_t bogus_agent{0x1234};
  hsa_amd_vmem_alloc_handle_t out{0};
  hsa_access_permission_t permission = kReadWrite;
  int fd = -1;
  constexpr auto kInvalid = HSA_STATUS_ERROR_INVALID_ARGUMENT;

  EXPECT_EQ(hsa_amd_vmem_address_reserve(nullptr, kPage, 0, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_reserve(&va, 0, 0, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_reserve(&va, kPage - 1, 0, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_reserve(&va, kPage, 0, 2), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_reserve_align(&va, kPage, 0, 3 * kPage, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_reserve_align(&va, kPage, 0, 16, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_address_free(nullptr, kPage), kInvalid);

  EXPECT_EQ(hsa_amd_vmem_handle_create(pool, 0, MEMORY_TYPE_NONE, 0, &out), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_handle_create(pool, kPage + 1, MEMORY_TYPE_NONE, 0, &out), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_handle_create(pool, kPage, static_cast<hsa_amd_memory_type_t>(2), 0, &out),
            kInvalid);
  EXPECT_EQ(hsa_amd_vmem_handle_create(pool, kPage, MEMORY_TYPE_NONE, 1, &out), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_handle_create(pool, kPage, MEMORY_TYPE_NONE, 0, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_handle_create({0}, kPage, MEMORY_TYPE_NONE, 0, &out), kInvalid);

  EXPECT_EQ(hsa_amd_vmem_map(nullptr, kPage, 0, handle, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_map(va, 0, 0, handle, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_map(va, kPage, 0, handle, 1), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_map(va, 4 * kPage, 0, handle, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_map(va, kPage, 0, {0}, 0), kInvalid);
  ASSERT_HSA(hsa_amd_vmem_map(va, 2 * kPage, 0, handle, 0));
  EXPECT_EQ(hsa_amd_vmem_map(va, kPage, 0, handle, 0), kInvalid);

  const hsa_amd_memory_access_desc_t good{kReadWrite, cpus[0]};
  const hsa_amd_memory_access_desc_t second_bad[] = {{kReadWrite, cpus[0]}, {kReadWrite, bogus_agent}};
  EXPECT_EQ(hsa_amd_vmem_set_access(va, 2 * kPage, nullptr, 1), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_set_access(va, 2 * kPage, &good, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_set_access(va, 0, &good, 1), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_set_access(va, 2 * kPage, second_bad, 2), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_vmem_set_access(va, kPage, &good, 1), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_set_access(at(va, 2 * kPage), kPage, &good, 1), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_set_access(at(va, 8 * kPage), kPage, &good, 1), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(access_of(va, cpus[0]), kNone);

  EXPECT_EQ(hsa_amd_vmem_get_access(va, &permission, bogus_agent), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(permission, kNone);
  EXPECT_EQ(hsa_amd_vmem_get_access(at(va, 2 * kPage), &permission, cpus[0]),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_get_access(va, nullptr, cpus[0]), kInvalid);

  EXPECT_EQ(hsa_amd_vmem_export_shareable_handle(nullptr, handle, 0), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_export_shareable_handle(&fd, handle, 1), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_export_shareable_handle(&fd, {0}, 0), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_retain_alloc_handle(nullptr, va), kInvalid);
  EXPECT_EQ(hsa_amd_vmem_retain_alloc_handle(&out, at(va, 3 * kPage)), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_unmap(va, kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(hsa_amd_vmem_address_free(va, 4 * kPage), HSA_STATUS_ERROR_RESOURCE_FREE);
  EXPECT_EQ(hsa_amd_portable_close_dmabuf(-1), kInvalid);
  EXPECT_EQ(hsa_amd_portable_close_dmabuf(9999), HSA_STATUS_ERROR_RESOURCE_FREE);

  ASSERT_HSA(hsa_amd_vmem_unmap(va, 2 * kPage));
  ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
  EXPECT_HSA(hsa_amd_vmem_address_free(va, 4 * kPage));
}

TEST_F(VmemApi, PermissionsOutsideTheEnumerationAreRefused) {
  void* va = reserve(kPage);
  const auto handle = create(owners[0], kPage);
  ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
  hsa_amd_memory_access_desc_t access{kReadWrite, cpus[0]};
  const unsigned outside = 7;
  std::memcpy(&access.permissions, &outside, sizeof(outside));
  EXPECT_EQ(hsa_amd_vmem_set_access(va, kPage, &access, 1), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  tear_down(va, kPage, handle);
}

TEST_F(VmemApi, NothingWorksBeforeInit) {
  EXPECT_EQ(in_child([] {
              void* va = nullptr;
              hsa_amd_vmem_alloc_handle_t handle{0};
              const bool refused =
                  hsa_amd_vmem_address_reserve(nullptr, 0, 0, 0) == HSA_STATUS_ERROR_NOT_INITIALIZED &&
                  hsa_amd_vmem_handle_release(handle) == HSA_STATUS_ERROR_NOT_INITIALIZED &&
                  hsa_amd_vmem_unmap(va, 0) == HSA_STATUS_ERROR_NOT_INITIALIZED &&
                  hsa_shut_down() == HSA_STATUS_ERROR_NOT_INITIALIZED;
              return refused ? 0 : 1;
            }),
            0);
}

TEST_F(VmemApi, AccessMayBeGivenToAgentsInAnyOrder) {
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  std::vector<hsa_agent_t> order = {gpus[0], gpus[1], cpus[0]};
  std::ranges::sort(order, {}, &hsa_agent_t::handle);
  auto* staging = static_cast<char*>(allocate_shared(kPage));
  do {
    void* va = reserve(kPage);
    const auto handle = create(gpus[0], kPage);
    ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
    for (const hsa_agent_t agent : order) ASSERT_HSA(allow(va, kPage, agent, kReadWrite));
    for (const hsa_agent_t gpu : gpus) {
      std::memset(va, 6, kPage);
      std::memset(staging, 0, kPage);
      copy_on(gpu, staging, va, kPage);
      EXPECT_EQ(staging[kPage - 1], 6);
    }
    tear_down(va, kPage, handle);
  } while (std::next_permutation(order.begin(), order.end(),
                                 [](hsa_agent_t a, hsa_agent_t b) { return a.handle < b.handle; }));
  EXPECT_HSA(hsa_amd_memory_pool_free(staging));
}

TEST_F(VmemApi, ManyThreadsWithFewDescriptors) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 40;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto handle = create(owners[0], kPage);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < kRounds; ++i) {
        void* va = reserve(kPage);
        bool good = hsa_amd_vmem_map(va, kPage, 0, handle, 0) == HSA_STATUS_SUCCESS;
        const auto& everybody = accessors_of(owners[0]);
        for (int k = 0; k < 3; ++k) {
          const hsa_agent_t agent = everybody[random() % everybody.size()];
          good = good && allow(va, kPage, agent, random() % 2 ? kReadWrite : kReadOnly) == HSA_STATUS_SUCCESS;
        }
        hsa_amd_vmem_alloc_handle_t retained{0};
        good = good && hsa_amd_vmem_retain_alloc_handle(&retained, va) == HSA_STATUS_SUCCESS;
        good = good && hsa_amd_vmem_handle_release(retained) == HSA_STATUS_SUCCESS;
        good = good && hsa_amd_vmem_unmap(va, kPage) == HSA_STATUS_SUCCESS;
        good = good && hsa_amd_vmem_address_free(va, kPage) == HSA_STATUS_SUCCESS;
        if (!good) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_HSA(hsa_amd_vmem_handle_release(handle));
}

TEST_F(VmemApi, ShutDownWithMappingsLeavesExportsValid) {
  if (gpus.empty() && npus.empty()) GTEST_SKIP() << "needs a device";
  int fd = -1;
  void* va = reserve(kPage);
  const auto handle = create(owners[0], kPage);
  ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, handle, 0));
  for (const hsa_agent_t agent : accessors_of(owners[0])) ASSERT_HSA(allow(va, kPage, agent, kReadWrite));
  std::strcpy(at(va, 0), "still here");
  ASSERT_HSA(hsa_amd_vmem_export_shareable_handle(&fd, handle, 0));
  ASSERT_HSA(hsa_shut_down());
  EXPECT_EQ(protection_at(va), "");
  ASSERT_HSA(hsa_init());
  hsa_amd_vmem_alloc_handle_t imported{0};
  ASSERT_HSA(hsa_amd_vmem_import_shareable_handle(fd, &imported));
  EXPECT_EQ(::close(fd), 0);
  va = reserve(kPage);
  ASSERT_HSA(hsa_amd_vmem_map(va, kPage, 0, imported, 0));
  ASSERT_HSA(allow(va, kPage, agents_of_type(HSA_DEVICE_TYPE_CPU)[0], kReadOnly));
  EXPECT_STREQ(at(va, 0), "still here");
  tear_down(va, kPage, imported);
}

}  // namespace
}  // namespace hsa_rt::test
