// The vmem state machine over a driver of memfds: what the API promises, and what it must not do.
#include "runtime/core/vmem_table.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/runtime/fake_driver.h"

namespace hsa_rt::test {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kNoSuchHandle = 0x4000000000abcdef;

int open_fd_count() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// The protection of the page at `address` as /proc/self/maps shows it, "" when nothing is mapped there.
std::string protection_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char protection[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, protection) != 3) continue;
    const auto at = reinterpret_cast<unsigned long>(address);
    if (at >= begin && at < end) return std::string(protection, 3);
  }
  return "";
}

class VmemTableTest : public ::testing::Test {
 protected:
  VmemTableTest()
      : host(std::make_shared<FakeDriver>(DriverId::kHost)),
        gpu_driver(std::make_shared<FakeDriver>(DriverId::kKfd)),
        npu_driver(std::make_shared<FakeDriver>(DriverId::kXdna)) {
    host->add_device(DeviceKind::kCpu, true);
    gpu0_device = &gpu_driver->add_device(DeviceKind::kGpu, false);
    gpu1_device = &gpu_driver->add_device(DeviceKind::kGpu, false);
    npu_driver->add_device(DeviceKind::kNpu, true);
    drivers = {host, gpu_driver, npu_driver};
    directory.emplace(drivers);
    table.emplace(*directory, drivers);
    cpu = &directory->agents()[0];
    gpu0 = &directory->agents()[1];
    gpu1 = &directory->agents()[2];
    npu = &directory->agents()[3];
  }

  ~VmemTableTest() override {
    table.reset();
    for (const auto& driver : {host, gpu_driver, npu_driver}) {
      EXPECT_EQ(driver->counts.memories, 0);
      EXPECT_EQ(driver->counts.shares, 0);
      EXPECT_EQ(driver->counts.device_mappings, 0);
    }
  }

  Pool& gpu_pool() { return gpu0->pools()[0]; }
  Pool& npu_pool() { return npu->pools()[0]; }

  void* reserve(uint64_t size) { return table->reserve(size, 0, 0).value(); }
  uint64_t create(Pool& pool, uint64_t size) { return table->create(pool, size, MEMORY_TYPE_NONE).value(); }
  hsa_status_t status(const Status<void>& outcome) { return outcome ? HSA_STATUS_SUCCESS : outcome.error(); }
  hsa_status_t map(void* va, uint64_t size, uint64_t offset, uint64_t handle) {
    return status(table->map(va, size, offset, handle));
  }
  hsa_status_t unmap(void* va, uint64_t size) { return status(table->unmap(va, size)); }
  hsa_status_t release(uint64_t handle) { return status(table->release(handle)); }
  hsa_status_t free(void* va, uint64_t size) { return status(table->free(va, size)); }
  hsa_status_t set_access(void* va, uint64_t size, std::vector<AccessRequest> requests) {
    return status(table->set_access(va, size, requests));
  }
  Permission access(void* va, Agent* agent) { return table->get_access(va, *agent).value(); }

  static char* at(void* va, uint64_t offset) { return static_cast<char*>(va) + offset; }

  std::shared_ptr<FakeDriver> host, gpu_driver, npu_driver;
  FakeDevice* gpu0_device;
  FakeDevice* gpu1_device;
  std::vector<std::shared_ptr<Driver>> drivers;
  std::optional<AgentDirectory> directory;
  std::optional<VmemTable> table;
  Agent *cpu, *gpu0, *gpu1, *npu;
};

constexpr Permission kRead = Permission::kRead;
constexpr Permission kReadWrite = Permission::kReadWrite;
constexpr Permission kNone = Permission::kNone;

TEST_F(VmemTableTest, ReserveRejectsSizesAndAlignmentsThatAreNotPages) {
  EXPECT_EQ(table->reserve(0, 0, 0).error(), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(table->reserve(kPage + 1, 0, 0).error(), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{3}, kPage / 2, 3 * kPage}) {
    EXPECT_EQ(table->reserve(kPage, 0, alignment).error(), HSA_STATUS_ERROR_INVALID_ARGUMENT) << alignment;
  }
}

TEST_F(VmemTableTest, ReserveAlignsWithoutKeepingSlack) {
  constexpr uint64_t kAlignment = uint64_t{2} << 20;
  std::vector<void*> ranges;
  for (int i = 0; i < 16; ++i) {
    void* va = table->reserve(kPage, 0, kAlignment).value();
    EXPECT_EQ(reinterpret_cast<uint64_t>(va) % kAlignment, 0u);
    EXPECT_NE(protection_at(at(va, 0)), "");
    ranges.push_back(va);
  }
  for (void* va : ranges) {
    EXPECT_EQ(free(va, kPage), HSA_STATUS_SUCCESS);
    EXPECT_EQ(protection_at(va), "");
  }
}

TEST_F(VmemTableTest, ReserveHonoursAHintThatIsFree) {
  void* somewhere = reserve(16 * kPage);
  EXPECT_EQ(free(somewhere, 16 * kPage), HSA_STATUS_SUCCESS);
  void* va = table->reserve(4 * kPage, reinterpret_cast<uint64_t>(somewhere), 0).value();
  EXPECT_EQ(va, somewhere);
  void* elsewhere = table->reserve(4 * kPage, reinterpret_cast<uint64_t>(somewhere), 0).value();
  EXPECT_NE(elsewhere, somewhere);
}

TEST_F(VmemTableTest, ReserveTakesATebibyteAndRefusesTheImpossible) {
  constexpr uint64_t kTebibyte = uint64_t{1} << 40;
  void* va = reserve(kTebibyte);
  EXPECT_EQ(free(va, kTebibyte), HSA_STATUS_SUCCESS);
  EXPECT_EQ(table->reserve(uint64_t{1} << 62, 0, 0).error(), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(table->reserve(~(kPage - 1), 0, 0).error(), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

TEST_F(VmemTableTest, FreeNeedsTheExactReservation) {
  void* va = reserve(4 * kPage);
  EXPECT_EQ(free(at(va, kPage), 3 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(free(va, 3 * kPage), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(free(va, 4 * kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(free(va, 4 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(VmemTableTest, FreeWhileMappedIsResourceFree) {
  void* va = reserve(4 * kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(free(va, 4 * kPage), HSA_STATUS_ERROR_RESOURCE_FREE);
  EXPECT_EQ(unmap(va, kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(free(va, 4 * kPage), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, HandlesCostNoPagesAndNoAddressSpace) {
  const auto map_lines = [] {
    std::ifstream maps("/proc/self/maps");
    int lines = 0;
    for (std::string line; std::getline(maps, line);) ++lines;
    return lines;
  };
  std::vector<uint64_t> handles;
  handles.push_back(create(npu_pool(), kPage));
  const int before = map_lines();
  for (int i = 0; i < 200; ++i) handles.push_back(create(npu_pool(), kPage));
  EXPECT_LE(map_lines(), before + 1);  // at most the heap grew
  for (const uint64_t handle : handles) EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, HandlesOfDifferentDriversNeverCollide) {
  const uint64_t gpu_handle = create(gpu_pool(), kPage);
  const uint64_t npu_handle = create(npu_pool(), kPage);
  EXPECT_NE(gpu_handle >> 60, npu_handle >> 60);
  EXPECT_NE(gpu_handle, 0u);
}

TEST_F(VmemTableTest, AReleasedHandleIsNeverValidAgain) {
  const uint64_t first = create(gpu_pool(), kPage);
  EXPECT_EQ(release(first), HSA_STATUS_SUCCESS);
  const uint64_t second = create(gpu_pool(), kPage);  // takes the same slot
  EXPECT_NE(first, second);
  EXPECT_EQ(release(first), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  void* va = reserve(kPage);
  EXPECT_EQ(map(va, kPage, 0, first), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(table->export_dmabuf(first).error(), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(table->properties(first).error(), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(release(kNoSuchHandle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(VmemTableTest, CreateChecksSizeAndReportsExhaustion) {
  EXPECT_EQ(table->create(gpu_pool(), 0, MEMORY_TYPE_NONE).error(), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(table->create(gpu_pool(), kPage + 8, MEMORY_TYPE_NONE).error(),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  gpu_driver->fail = [](const std::string& operation) { return operation == "allocate" ? ENOMEM : 0; };
  EXPECT_EQ(table->create(gpu_pool(), kPage, MEMORY_TYPE_NONE).error(), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

TEST_F(VmemTableTest, ReleaseWhileMappedKeepsTheMappingUsable) {
  void* va = reserve(kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{cpu, kReadWrite}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  *at(va, 0) = 42;
  EXPECT_EQ(*at(va, 0), 42);
  EXPECT_EQ(table->export_dmabuf(handle).error(), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(gpu_driver->counts.memories, 1);
  EXPECT_EQ(unmap(va, kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 0);
}

TEST_F(VmemTableTest, RetainCountsAndRevivesTheSameHandle) {
  void* va = reserve(2 * kPage);
  const uint64_t handle = create(gpu_pool(), 2 * kPage);
  ASSERT_EQ(map(va, 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(table->retain(va).value(), handle);
  EXPECT_EQ(table->retain(at(va, kPage + 7)).value(), handle);
  EXPECT_EQ(table->retain(at(va, 2 * kPage)).error(), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(table->retain(va).value(), handle);
  EXPECT_EQ(unmap(va, 2 * kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 1);
  EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 0);
}

TEST_F(VmemTableTest, ReleaseThatTheDriverRefusesKeepsTheHandle) {
  const uint64_t handle = create(gpu_pool(), kPage);
  gpu_driver->fail = [](const std::string& operation) { return operation == "close" ? EIO : 0; };
  EXPECT_NE(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 1);
  gpu_driver->fail = nullptr;
  EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 0);
}

TEST_F(VmemTableTest, MemoryTheDriverRefusedAtUnmapIsClosedLater) {
  void* va = reserve(kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(release(handle), HSA_STATUS_SUCCESS);
  gpu_driver->fail = [](const std::string& operation) { return operation == "close" ? EIO : 0; };
  EXPECT_EQ(unmap(va, kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 1);
  gpu_driver->fail = nullptr;
  EXPECT_EQ(release(create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->counts.memories, 0);
}

TEST_F(VmemTableTest, MapChecksRangeHandleAndOffset) {
  void* va = reserve(8 * kPage);
  const uint64_t handle = create(gpu_pool(), 4 * kPage);
  EXPECT_EQ(map(va, 0, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, kPage + 1, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(at(va, 1), kPage, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, kPage, 0, kNoSuchHandle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, 5 * kPage, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, 2 * kPage, 3 * kPage, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, kPage, 1, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, kPage, ~(kPage - 1), handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, ~(kPage - 1), 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(at(va, 7 * kPage), 2 * kPage, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(at(va, -kPage), kPage, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(va, 2 * kPage, 2 * kPage, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(map(at(va, kPage), kPage, 0, handle), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(map(at(va, 2 * kPage), kPage, 0, handle), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, TheLastPageOfAnAlignedReservationCanBeMapped) {
  constexpr uint64_t kAlignment = uint64_t{2} << 20;
  for (int i = 0; i < 4; ++i) {
    void* va = table->reserve(3 * kPage, 0, kAlignment).value();
    const uint64_t handle = create(gpu_pool(), kPage);
    EXPECT_EQ(map(at(va, 2 * kPage), kPage, 0, handle), HSA_STATUS_SUCCESS);
    EXPECT_EQ(unmap(at(va, 2 * kPage), kPage), HSA_STATUS_SUCCESS);
    EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
    EXPECT_EQ(free(va, 3 * kPage), HSA_STATUS_SUCCESS);
  }
}

TEST_F(VmemTableTest, MapGrantsNobodyAccessAndCallsNoDriver) {
  void* va = reserve(kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  const auto calls = gpu_driver->calls;
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->calls, calls);
  EXPECT_EQ(protection_at(va), "---");
  for (Agent* agent : {cpu, gpu0, gpu1, npu}) EXPECT_EQ(access(va, agent), kNone);
}

TEST_F(VmemTableTest, InOffsetShowsThatPartOfTheMemory) {
  void* whole = reserve(4 * kPage);
  void* part = reserve(2 * kPage);
  const uint64_t handle = create(gpu_pool(), 4 * kPage);
  ASSERT_EQ(map(whole, 4 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(part, 2 * kPage, 2 * kPage, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(whole, 4 * kPage, {{cpu, kReadWrite}}), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(part, 2 * kPage, {{cpu, kReadWrite}, {gpu0, kReadWrite}}), HSA_STATUS_SUCCESS);
  std::strcpy(at(part, 0), "second half");
  EXPECT_STREQ(at(whole, 2 * kPage), "second half");
  EXPECT_EQ(gpu0_device->placed.begin()->second.offset, 2 * kPage);
}

TEST_F(VmemTableTest, UnmapNeedsWholeMappingsWithoutHoles) {
  void* va = reserve(8 * kPage);
  const uint64_t handle = create(gpu_pool(), 2 * kPage);
  ASSERT_EQ(map(va, 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(at(va, 2 * kPage), 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(at(va, 6 * kPage), 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(unmap(va, kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(at(va, kPage), kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(va, 3 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(va, 8 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(at(va, 4 * kPage), 2 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(va, 4 * kPage), HSA_STATUS_SUCCESS);
  EXPECT_EQ(unmap(va, 4 * kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(unmap(at(va, 6 * kPage), 2 * kPage), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, UnmapKeepsTheReservationAndTheBytes) {
  void* va = reserve(kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  for (char round = 0; round < 8; ++round) {
    ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
    ASSERT_EQ(set_access(va, kPage, {{cpu, kReadWrite}}), HSA_STATUS_SUCCESS);
    EXPECT_EQ(*at(va, 0), round);
    *at(va, 0) = static_cast<char>(round + 1);
    ASSERT_EQ(unmap(va, kPage), HSA_STATUS_SUCCESS);
    EXPECT_EQ(protection_at(va), "---");
  }
}

TEST_F(VmemTableTest, SetAccessChecksTheRange) {
  void* va = reserve(8 * kPage);
  const uint64_t handle = create(gpu_pool(), 2 * kPage);
  ASSERT_EQ(map(va, 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(at(va, 4 * kPage), 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(set_access(va, 4 * kPage, {{gpu0, kReadWrite}}), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(set_access(at(va, 2 * kPage), 2 * kPage, {{gpu0, kReadWrite}}),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(set_access(at(va, kPage), kPage, {{gpu0, kReadWrite}}), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(set_access(at(va, 7 * kPage), 2 * kPage, {{gpu0, kReadWrite}}),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(set_access(va, ~uint64_t{0}, {{gpu0, kReadWrite}}), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(gpu0_device->placed.empty());
}

TEST_F(VmemTableTest, SetAccessOnHalfAMappingGrantsNothing) {
  void* va = reserve(2 * kPage);
  const uint64_t handle = create(gpu_pool(), 2 * kPage);
  ASSERT_EQ(map(va, 2 * kPage, 0, handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(set_access(va, kPage, {{gpu0, kReadWrite}}), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(access(va, gpu0), kNone);
}

TEST_F(VmemTableTest, SetAccessMayCoverManyHandles) {
  constexpr int kChunks = 5;
  void* va = reserve(kChunks * kPage);
  for (int i = 0; i < kChunks; ++i) {
    ASSERT_EQ(map(at(va, i * kPage), kPage, 0, create(i % 2 ? npu_pool() : gpu_pool(), kPage)),
              HSA_STATUS_SUCCESS);
  }
  EXPECT_EQ(set_access(va, kChunks * kPage, {{gpu0, kReadWrite}, {cpu, kRead}}), HSA_STATUS_SUCCESS);
  for (int i = 0; i < kChunks; ++i) {
    EXPECT_EQ(access(at(va, i * kPage), gpu0), kReadWrite);
    EXPECT_EQ(access(at(va, i * kPage), cpu), kRead);
    EXPECT_EQ(protection_at(at(va, i * kPage)), "r--");
  }
}

TEST_F(VmemTableTest, AgentsNotListedKeepTheirAccess) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{gpu0, kReadWrite}}), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{gpu1, kRead}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, gpu0), kReadWrite);
  EXPECT_EQ(access(va, gpu1), kRead);
  ASSERT_EQ(set_access(va, kPage, {{gpu0, kNone}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, gpu0), kNone);
  EXPECT_EQ(access(va, gpu1), kRead);
  EXPECT_TRUE(gpu0_device->placed.empty());
}

TEST_F(VmemTableTest, AnAgentListedTwiceGetsTheLastPermission) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{gpu0, kReadWrite}, {gpu0, kRead}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, gpu0), kRead);
  EXPECT_EQ(gpu0_device->placed.begin()->second.permission, kRead);
}

TEST_F(VmemTableTest, RevokingWhatWasNeverGrantedCallsNoDriver) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  const auto calls = gpu_driver->calls;
  EXPECT_EQ(set_access(va, kPage, {{gpu0, kNone}, {gpu1, kNone}, {npu, kNone}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(gpu_driver->calls, calls);
}

TEST_F(VmemTableTest, WriteOnlyIsReportedAsGranted) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{gpu0, Permission::kWrite}, {cpu, Permission::kWrite}}),
            HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, gpu0), Permission::kWrite);
  EXPECT_EQ(access(va, cpu), Permission::kWrite);
  EXPECT_EQ(protection_at(va), "rw-");
}

TEST_F(VmemTableTest, OwnerAccessNeedsNoExport) {
  void* va = reserve(16 * kPage);
  const uint64_t handle = create(npu_pool(), kPage);
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(map(at(va, i * kPage), kPage, 0, handle), HSA_STATUS_SUCCESS);
    ASSERT_EQ(set_access(at(va, i * kPage), kPage, {{npu, kReadWrite}, {cpu, kReadWrite}}),
              HSA_STATUS_SUCCESS);
  }
  EXPECT_EQ(npu_driver->counts.exports, 0);
  EXPECT_EQ(npu_driver->counts.imports, 0);
  EXPECT_EQ(npu_driver->counts.borrowed_shares_made, 16);
}

TEST_F(VmemTableTest, AccessAcrossDriversGoesThroughOneDmabufAndLeavesNoDescriptor) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(npu_pool(), kPage)), HSA_STATUS_SUCCESS);
  const int before = open_fd_count();
  ASSERT_EQ(set_access(va, kPage, {{gpu0, kReadWrite}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(npu_driver->counts.exports, 1);
  EXPECT_EQ(gpu_driver->counts.imports, 1);
  EXPECT_EQ(open_fd_count(), before);
}

TEST_F(VmemTableTest, CpuAndNpuShareOneViewOfTheMemory) {
  void* va = reserve(kPage);
  ASSERT_EQ(map(va, kPage, 0, create(npu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{npu, kReadWrite}, {cpu, kRead}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, npu), kReadWrite);
  EXPECT_EQ(access(va, cpu), kRead);
  EXPECT_EQ(protection_at(va), "rw-");
  ASSERT_EQ(set_access(va, kPage, {{npu, kNone}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(protection_at(va), "r--");
  ASSERT_EQ(set_access(va, kPage, {{npu, kReadWrite}}), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{cpu, kNone}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(protection_at(va), "rw-");
  ASSERT_EQ(set_access(va, kPage, {{npu, kNone}}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(protection_at(va), "---");
}

TEST_F(VmemTableTest, AFailedGrantLeavesEveryAgentAsItWas) {
  void* va = reserve(2 * kPage);
  ASSERT_EQ(map(va, kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(at(va, kPage), kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, 2 * kPage, {{gpu0, kRead}, {cpu, kRead}}), HSA_STATUS_SUCCESS);
  const auto placed = gpu0_device->placed.size();
  const int fds = open_fd_count();
  for (const char* failing : {"attach", "export", "import", "map", "set_permission", "cpu_source"}) {
    for (int nth = 1; nth <= 2; ++nth) {
      int seen = 0;
      gpu_driver->fail = [&](const std::string& operation) {
        return operation == failing && ++seen == nth ? EIO : 0;
      };
      EXPECT_NE(set_access(va, 2 * kPage, {{gpu0, kReadWrite}, {gpu1, kReadWrite}, {cpu, kReadWrite}}),
                HSA_STATUS_SUCCESS)
          << failing << " " << nth;
      gpu_driver->fail = nullptr;
      for (const uint64_t offset : {uint64_t{0}, kPage}) {
        EXPECT_EQ(access(at(va, offset), gpu0), kRead);
        EXPECT_EQ(access(at(va, offset), gpu1), kNone);
        EXPECT_EQ(access(at(va, offset), cpu), kRead);
        EXPECT_EQ(protection_at(at(va, offset)), "r--");
      }
      for (const auto& [base, entry] : gpu0_device->placed) EXPECT_EQ(entry.permission, kRead);
      EXPECT_EQ(gpu0_device->placed.size(), placed);
      EXPECT_TRUE(gpu1_device->placed.empty());
      EXPECT_EQ(open_fd_count(), fds);
    }
  }
}

TEST_F(VmemTableTest, AFailedUnmapCanBeRepeated) {
  constexpr int kChunks = 3;
  void* va = reserve(kChunks * kPage);
  for (int i = 0; i < kChunks; ++i) {
    ASSERT_EQ(map(at(va, i * kPage), kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  }
  ASSERT_EQ(set_access(va, kChunks * kPage, {{gpu0, kRead}, {cpu, kReadWrite}}), HSA_STATUS_SUCCESS);
  *at(va, kPage) = 7;
  int seen = 0;
  gpu_driver->fail = [&](const std::string& operation) {
    return operation == "unmap" && ++seen == 2 ? EIO : 0;
  };
  EXPECT_NE(unmap(va, kChunks * kPage), HSA_STATUS_SUCCESS);
  gpu_driver->fail = nullptr;
  for (int i = 0; i < kChunks; ++i) {
    EXPECT_EQ(access(at(va, i * kPage), gpu0), kRead);
    EXPECT_EQ(access(at(va, i * kPage), cpu), kReadWrite);
  }
  EXPECT_EQ(gpu0_device->placed.size(), 3u);
  EXPECT_EQ(*at(va, kPage), 7);
  EXPECT_EQ(unmap(va, kChunks * kPage), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, GetAccessAnswersInsideAMappingAndNotBehindIt) {
  void* va = reserve(4 * kPage);
  ASSERT_EQ(map(va, 2 * kPage, 0, create(gpu_pool(), 2 * kPage)), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(at(va, kPage + 100), gpu0), kNone);
  EXPECT_EQ(table->get_access(at(va, 2 * kPage), *gpu0).error(), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST_F(VmemTableTest, AllowAccessStopsAtTheMapping) {
  void* va = reserve(2 * kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(map(at(va, kPage), kPage, 0, handle), HSA_STATUS_SUCCESS);
  Agent* const agents[] = {gpu0};
  EXPECT_EQ(status(table->allow_access(at(va, 16), agents)), HSA_STATUS_SUCCESS);
  EXPECT_EQ(access(va, gpu0), kReadWrite);
  EXPECT_EQ(access(at(va, kPage), gpu0), kNone);
}

TEST_F(VmemTableTest, ImportingTheSameBufferTwiceGivesTheSameHandle) {
  const uint64_t handle = create(gpu_pool(), kPage);
  const UniqueFd fd = std::move(table->export_dmabuf(handle)).value();
  const UniqueFd again = std::move(table->export_dmabuf(handle)).value();
  EXPECT_NE(fd.get(), again.get());
  EXPECT_EQ(table->import_dmabuf(fd.get()).value(), handle);
  EXPECT_EQ(table->import_dmabuf(again.get()).value(), handle);
  EXPECT_EQ(gpu_driver->counts.imports, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(release(handle), HSA_STATUS_ERROR_INVALID_ALLOCATION);

  const uint64_t imported = table->import_dmabuf(fd.get()).value();
  EXPECT_NE(imported, handle);
  EXPECT_EQ(table->import_dmabuf(fd.get()).value(), imported);
  EXPECT_EQ(gpu_driver->counts.imports, 1);
  EXPECT_EQ(table->properties(imported).value().pool, &gpu_pool());
  EXPECT_EQ(release(imported), HSA_STATUS_SUCCESS);
  EXPECT_EQ(release(imported), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, ARefusedImportIsIncompatibleAndLeaksNothing) {
  const UniqueFd fd(::memfd_create("foreign", MFD_CLOEXEC));
  const int before = open_fd_count();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(table->import_dmabuf(fd.get()).error(), HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  }
  EXPECT_EQ(table->import_dmabuf(9999).error(), HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  EXPECT_EQ(open_fd_count(), before);
}

TEST_F(VmemTableTest, ImportIsRevivedThroughItsMapping) {
  void* va = reserve(kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  const UniqueFd fd = std::move(table->export_dmabuf(handle)).value();
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(table->import_dmabuf(fd.get()).value(), handle);
  EXPECT_EQ(release(handle), HSA_STATUS_SUCCESS);
  EXPECT_EQ(unmap(va, kPage), HSA_STATUS_SUCCESS);
}

TEST_F(VmemTableTest, DescribeTellsReservedFromMapped) {
  void* va = reserve(4 * kPage);
  ASSERT_EQ(map(at(va, kPage), kPage, 0, create(gpu_pool(), kPage)), HSA_STATUS_SUCCESS);
  EXPECT_FALSE(table->describe(at(va, 4 * kPage)).has_value());
  EXPECT_EQ(table->describe(va)->pool, nullptr);
  EXPECT_EQ(table->describe(va)->span.size, 4 * kPage);
  EXPECT_EQ(table->describe(at(va, kPage + 5))->pool, &gpu_pool());
  EXPECT_EQ(table->describe(at(va, kPage + 5))->span.size, kPage);
}

TEST_F(VmemTableTest, ManyThreadsOnDisjointRangesAllSucceed) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 50;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        void* va = reserve(kPage);
        const uint64_t handle = create(t % 2 ? gpu_pool() : npu_pool(), kPage);
        bool good = map(va, kPage, 0, handle) == HSA_STATUS_SUCCESS;
        good = good && set_access(va, kPage, {{gpu1, kReadWrite}, {cpu, kReadWrite}}) == HSA_STATUS_SUCCESS;
        if (good) *at(va, 0) = static_cast<char>(i);
        Status<UniqueFd> fd = table->export_dmabuf(handle);
        good = good && fd && table->import_dmabuf(fd.value().get()) && table->retain(va);
        good = good && release(handle) == HSA_STATUS_SUCCESS && release(handle) == HSA_STATUS_SUCCESS;
        good = good && unmap(va, kPage) == HSA_STATUS_SUCCESS && release(handle) == HSA_STATUS_SUCCESS;
        good = good && free(va, kPage) == HSA_STATUS_SUCCESS;
        if (!good) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(VmemTableTest, ShutdownDropsWhatIsLeft) {
  void* va = reserve(2 * kPage);
  const uint64_t handle = create(gpu_pool(), kPage);
  ASSERT_EQ(map(va, kPage, 0, handle), HSA_STATUS_SUCCESS);
  ASSERT_EQ(set_access(va, kPage, {{cpu, kReadWrite}, {gpu1, kReadWrite}}), HSA_STATUS_SUCCESS);
  table.reset();
  EXPECT_EQ(gpu_driver->counts.memories_closed, 1);
  EXPECT_EQ(protection_at(va), "");
}

}  // namespace
}  // namespace hsa_rt::test
