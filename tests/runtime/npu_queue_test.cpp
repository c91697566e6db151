// Commands on an NPU: dispatched through its queue, on memory of its own, of the GPU, of the user, and mapped
// freely.
#include <algorithm>
#include <numeric>

#include "tests/runtime/hsa_fixture.h"
#include "tests/runtime/npu_program.h"

namespace hsa_rt::test {
namespace {

constexpr uint32_t kWords = 1024;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

class NpuQueue : public HsaTest {
 protected:
  void SetUp() override {
    HsaTest::SetUp();
    if (npus.empty()) GTEST_SKIP() << "needs an NPU";
    npu = npus[0];
    // The second of an NPU's pools is the device heap.
    heap_pool = pools_of(npu)[1];
    ASSERT_HSA(hsa_queue_create(npu, 64, HSA_QUEUE_TYPE_SINGLE, on_error, this, 0, 0, &queue));
    configuration = to_heap(kPassThroughConfiguration, sizeof(kPassThroughConfiguration));
    const std::vector<uint32_t> program = npu_copy_program(kWords);
    instruction_count = static_cast<uint32_t>(program.size());
    instructions = to_heap(program.data(), program.size() * sizeof(uint32_t));
  }
  void TearDown() override {
    if (queue != nullptr) {
      EXPECT_HSA(hsa_queue_destroy(queue));
    }
    for (void* memory : allocations) EXPECT_HSA(hsa_amd_memory_pool_free(memory));
    HsaTest::TearDown();
  }

  static void on_error(hsa_status_t status, hsa_queue_t*, void* data) {
    static_cast<NpuQueue*>(data)->error = status;
  }

  void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = nullptr;
    EXPECT_HSA(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
    allocations.push_back(memory);
    return memory;
  }
  void* to_heap(const void* data, size_t size) {
    void* memory = allocate(heap_pool, size);
    std::memcpy(memory, data, size);
    return memory;
  }
  uint32_t* shared_words() { return static_cast<uint32_t*>(allocate(coarse_pool(npu), kBytes)); }

  struct Payload {
    void* configuration;
    uint32_t words[11];  // opcode, instruction address, instruction count, two operands, their sizes
  };

  Payload copy_payload(const void* source, const void* target) {
    Payload payload{};
    const auto put = [&](size_t at, const void* pointer) {
      std::memcpy(&payload.words[at], &pointer, sizeof(pointer));
    };
    payload.configuration = configuration;
    payload.words[0] = 3;  // run a transaction
    put(2, instructions);
    payload.words[4] = instruction_count;
    put(5, source);
    put(7, target);
    payload.words[9] = payload.words[10] = kBytes;
    return payload;
  }

  // Writes a packet and returns it; the doorbell has not been rung.
  volatile hsa_amd_aie_ert_packet_t& enqueue(Payload& payload) {
    const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
    auto* packet = static_cast<hsa_amd_aie_ert_packet_t*>(queue->base_address) + index % queue->size;
    *packet = {};
    packet->header.AmdFormat = HSA_AMD_PACKET_TYPE_AIE_ERT;
    packet->state = HSA_AMD_AIE_ERT_STATE_NEW;
    packet->count = 9;  // three words each for the instructions and the two operands
    packet->opcode = HSA_AMD_AIE_ERT_START_CU;
    packet->payload_data = reinterpret_cast<uint64_t>(&payload);
    packet->header.header = HSA_PACKET_TYPE_VENDOR_SPECIFIC << HSA_PACKET_HEADER_TYPE;
    return *packet;
  }
  static uint32_t state_of(const volatile hsa_amd_aie_ert_packet_t& packet) { return packet.state; }
  void ring() {
    hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(
                                                           hsa_queue_load_write_index_relaxed(queue) - 1));
  }
  uint32_t run_copy(const void* source, const void* target) {
    Payload payload = copy_payload(source, target);
    volatile auto& packet = enqueue(payload);
    ring();
    return state_of(packet);
  }

  static void number(uint32_t* words, uint32_t first) { std::iota(words, words + kWords, first); }

  hsa_agent_t npu{0};
  hsa_amd_memory_pool_t heap_pool{0};
  hsa_queue_t* queue = nullptr;
  void* configuration = nullptr;
  void* instructions = nullptr;
  uint32_t instruction_count = 0;
  hsa_status_t error = HSA_STATUS_SUCCESS;
  std::vector<void*> allocations;
};

TEST_F(NpuQueue, ACommandMovesDataBetweenItsOperands) {
  uint32_t* source = shared_words();
  uint32_t* target = shared_words();
  number(source, 100);
  EXPECT_EQ(run_copy(source, target), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(target[kWords - 1], 100 + kWords - 1);
  EXPECT_EQ(error, HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_queue_load_read_index_scacquire(queue), 1u);
}

TEST_F(NpuQueue, FreelyMappedMemoryWorksAtEachOfItsAddresses) {
  hsa_amd_vmem_alloc_handle_t handle{0};
  ASSERT_HSA(hsa_amd_vmem_handle_create(coarse_pool(npu), 2 * kBytes, MEMORY_TYPE_NONE, 0, &handle));
  void* va = nullptr;
  ASSERT_HSA(hsa_amd_vmem_address_reserve(&va, 3 * kBytes, 0, 0));
  auto* whole = static_cast<uint32_t*>(va);
  uint32_t* second_half = whole + 2 * kWords;
  ASSERT_HSA(hsa_amd_vmem_map(whole, 2 * kBytes, 0, handle, 0));
  ASSERT_HSA(hsa_amd_vmem_map(second_half, kBytes, kBytes, handle, 0));
  const hsa_amd_memory_access_desc_t both[] = {{HSA_ACCESS_PERMISSION_RW, npu},
                                               {HSA_ACCESS_PERMISSION_RW, cpus[0]}};
  ASSERT_HSA(hsa_amd_vmem_set_access(va, 3 * kBytes, both, 2));
  number(whole, 7);
  // From the first half to the second, named by the address of the other mapping.
  EXPECT_EQ(run_copy(whole, second_half), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(whole[kWords], 7u);
  EXPECT_EQ(second_half[kWords - 1], 7 + kWords - 1);
  ASSERT_HSA(hsa_amd_vmem_unmap(va, 3 * kBytes));
  // Without a mapping the operand is unknown, and the queue says so.
  EXPECT_NE(run_copy(whole, second_half), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(error, HSA_STATUS_ERROR_INVALID_ALLOCATION);
  ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
  ASSERT_HSA(hsa_amd_vmem_address_free(va, 3 * kBytes));
}

TEST_F(NpuQueue, GpuMemoryIsAnOperandAndTheGpuSeesTheResult) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  hsa_amd_vmem_alloc_handle_t handle{0};
  ASSERT_HSA(hsa_amd_vmem_handle_create(coarse_pool(gpus[0]), 2 * kBytes, MEMORY_TYPE_NONE, 0, &handle));
  void* va = nullptr;
  ASSERT_HSA(hsa_amd_vmem_address_reserve(&va, 2 * kBytes, 0, 0));
  ASSERT_HSA(hsa_amd_vmem_map(va, 2 * kBytes, 0, handle, 0));
  const hsa_amd_memory_access_desc_t both[] = {{HSA_ACCESS_PERMISSION_RW, gpus[0]},
                                               {HSA_ACCESS_PERMISSION_RW, npu}};
  ASSERT_HSA(hsa_amd_vmem_set_access(va, 2 * kBytes, both, 2));
  auto* vram = static_cast<uint32_t*>(va);
  auto* staging = static_cast<uint32_t*>(allocate_shared(kBytes));
  number(staging, 5000);
  copy_on(gpus[0], vram, staging, kBytes);
  EXPECT_EQ(run_copy(vram, vram + kWords), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  std::memset(staging, 0, kBytes);
  copy_on(gpus[0], staging, vram + kWords, kBytes);
  EXPECT_EQ(staging[0], 5000u);
  EXPECT_EQ(staging[kWords - 1], 5000 + kWords - 1);
  EXPECT_HSA(hsa_amd_memory_pool_free(staging));
  ASSERT_HSA(hsa_amd_vmem_unmap(va, 2 * kBytes));
  ASSERT_HSA(hsa_amd_vmem_handle_release(handle));
  ASSERT_HSA(hsa_amd_vmem_address_free(va, 2 * kBytes));
}

TEST_F(NpuQueue, PoolMemoryOfEitherDeviceIsSharedOnRequest) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  uint32_t* of_npu = shared_words();
  auto* of_gpu = static_cast<uint32_t*>(allocate(coarse_pool(gpus[0]), kBytes));
  ASSERT_HSA(hsa_amd_agents_allow_access(1, gpus.data(), nullptr, of_npu));
  ASSERT_HSA(hsa_amd_agents_allow_access(1, &npu, nullptr, of_gpu));
  number(of_npu, 40);
  EXPECT_EQ(run_copy(of_npu, of_gpu), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(of_gpu[1], 41u);
  number(of_gpu, 90);
  copy_on(gpus[0], of_npu, of_gpu, kBytes);
  EXPECT_EQ(of_npu[kWords - 1], 90 + kWords - 1);
}

TEST_F(NpuQueue, LockedUserMemoryIsAnOperand) {
  std::vector<uint32_t> user(3 * kWords);
  void* seen = nullptr;
  ASSERT_HSA(hsa_amd_memory_lock(user.data(), user.size() * sizeof(uint32_t), &npu, 1, &seen));
  ASSERT_EQ(seen, user.data());
  uint32_t* target = shared_words();
  number(user.data(), 11);
  EXPECT_EQ(run_copy(user.data(), target), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(target[0], 11u);
  EXPECT_EQ(run_copy(target, user.data() + kWords), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(user[kWords], 11u);
  EXPECT_HSA(hsa_amd_memory_unlock(user.data()));
}

TEST_F(NpuQueue, TwoHundredCommandsGoDownInBatches) {
  constexpr size_t kCommands = 200;
  uint32_t* source = shared_words();
  uint32_t* target = shared_words();
  number(source, 1);
  for (size_t done = 0; done < kCommands;) {
    const size_t batch = std::min<size_t>(queue->size, kCommands - done);
    std::vector<Payload> payloads(batch, copy_payload(source, target));
    std::vector<volatile hsa_amd_aie_ert_packet_t*> packets;
    for (Payload& payload : payloads) packets.push_back(&enqueue(payload));
    ring();
    for (const auto* packet : packets) {
      ASSERT_EQ(state_of(*packet), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
    }
    done += batch;
  }
  EXPECT_EQ(hsa_queue_load_read_index_scacquire(queue), kCommands);
  EXPECT_EQ(target[3], 4u);
}

TEST_F(NpuQueue, AFailedCommandIsSeenToHaveFailed) {
  uint32_t* source = shared_words();
  uint32_t* target = shared_words();
  Payload good = copy_payload(source, target);
  Payload bad = copy_payload(source, target);
  Payload never_run = copy_payload(source, target);
  // A design that nobody knows: what it waits for does not come.
  bad.configuration = to_heap("something else", 15);
  volatile auto& first = enqueue(good);
  volatile auto& second = enqueue(bad);
  volatile auto& third = enqueue(never_run);
  ring();
  EXPECT_EQ(state_of(first), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(state_of(second), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_ERROR));
  EXPECT_EQ(state_of(third), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_ABORT));
  EXPECT_EQ(error, HSA_STATUS_ERROR);
}

TEST_F(NpuQueue, HeapMemoryBeyondSixteenMebibytesIsAddressedInFull) {
  uint32_t* source = shared_words();
  uint32_t* target = shared_words();
  allocate(heap_pool, size_t{40} << 20);
  const std::vector<uint32_t> program = npu_copy_program(kWords);
  instructions = to_heap(program.data(), program.size() * sizeof(uint32_t));
  number(source, 3);
  EXPECT_EQ(run_copy(source, target), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(target[0], 3u);
}

TEST_F(NpuQueue, AConfigurationMayReplaceOneThatIsGone) {
  uint32_t* source = shared_words();
  uint32_t* target = shared_words();
  number(source, 8);
  EXPECT_EQ(run_copy(source, target), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  // The next one takes the same place in the heap, and the same handle, as the one that was freed.
  ASSERT_HSA(hsa_amd_memory_pool_free(configuration));
  std::erase(allocations, configuration);
  configuration = to_heap(kPassThroughConfiguration, sizeof(kPassThroughConfiguration));
  number(source, 9);
  EXPECT_EQ(run_copy(source, target), static_cast<uint32_t>(HSA_AMD_AIE_ERT_STATE_COMPLETED));
  EXPECT_EQ(target[0], 9u);
}

TEST_F(NpuQueue, BarriersOrderCommandsAfterSignals) {
  const hsa_signal_t ready = make_signal(0);
  const hsa_signal_t done = make_signal(1);
  const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  auto* slot = static_cast<hsa_barrier_and_packet_t*>(queue->base_address) + index % queue->size;
  *slot = {};
  slot->dep_signal[2] = ready;
  slot->completion_signal = done;
  slot->header = HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE;
  ring();
  wait_for_zero(done);
  EXPECT_HSA(hsa_signal_destroy(ready));
  EXPECT_HSA(hsa_signal_destroy(done));
}

TEST_F(NpuQueue, UnknownPacketsStopTheQueue) {
  const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  auto* slot = static_cast<hsa_kernel_dispatch_packet_t*>(queue->base_address) + index % queue->size;
  *slot = {};
  slot->header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE;
  ring();
  EXPECT_EQ(error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
}

}  // namespace
}  // namespace hsa_rt::test
