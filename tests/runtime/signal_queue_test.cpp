// Signals, handlers, queues and copies.
#include <algorithm>
#include <atomic>
#include <thread>

#include <hsa/amd_hsa_signal.h>

#include "tests/runtime/hsa_fixture.h"

namespace hsa_rt::test {
namespace {

constexpr auto kInvalid = HSA_STATUS_ERROR_INVALID_ARGUMENT;

class Signals : public HsaTest {};

TEST_F(Signals, OperationsInEveryOrderDoTheSameArithmetic) {
  const hsa_signal_t signal = make_signal(10);
  hsa_signal_add_relaxed(signal, 1);
  hsa_signal_add_scacquire(signal, 1);
  hsa_signal_add_screlease(signal, 1);
  hsa_signal_add_scacq_screl(signal, 1);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 14);
  hsa_signal_subtract_relaxed(signal, 2);
  hsa_signal_subtract_scacq_screl(signal, 2);
  EXPECT_EQ(hsa_signal_load_scacquire(signal), 10);
  hsa_signal_and_relaxed(signal, 6);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 2);
  hsa_signal_or_relaxed(signal, 5);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 7);
  hsa_signal_xor_relaxed(signal, 1);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 6);
  EXPECT_EQ(hsa_signal_exchange_scacq_screl(signal, 3), 6);
  EXPECT_EQ(hsa_signal_cas_relaxed(signal, 4, 9), 3);
  EXPECT_EQ(hsa_signal_cas_relaxed(signal, 3, 9), 3);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 9);
  hsa_signal_store_screlease(signal, -1);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), -1);
  hsa_signal_silent_store_relaxed(signal, 5);
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 5);
  EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Signals, CreationAndDestructionCheckTheirArguments) {
  hsa_signal_t signal{0};
  EXPECT_EQ(hsa_signal_create(0, 0, nullptr, nullptr), kInvalid);
  EXPECT_EQ(hsa_signal_create(0, 1, nullptr, &signal), kInvalid);
  const hsa_agent_t twice[] = {cpus[0], cpus[0]};
  EXPECT_EQ(hsa_signal_create(0, 2, twice, &signal), kInvalid);
  EXPECT_EQ(hsa_signal_destroy({0}), kInvalid);
  EXPECT_EQ(hsa_signal_destroy({0x1000}), HSA_STATUS_ERROR_INVALID_SIGNAL);
  ASSERT_HSA(hsa_signal_create(3, 1, cpus.data(), &signal));
  EXPECT_EQ(hsa_signal_load_relaxed(signal), 3);
  EXPECT_HSA(hsa_signal_destroy(signal));
  EXPECT_EQ(hsa_signal_destroy(signal), HSA_STATUS_ERROR_INVALID_SIGNAL);
}

TEST_F(Signals, AWaitEndsWhenAnotherThreadStores) {
  for (int round = 0; round < 50; ++round) {
    const hsa_signal_t signal = make_signal(1);
    std::thread storer([&] { hsa_signal_store_screlease(signal, 0); });
    wait_for_zero(signal);
    storer.join();
    EXPECT_HSA(hsa_signal_destroy(signal));
  }
}

TEST_F(Signals, AWaitThatTimesOutReturnsTheCurrentValue) {
  const hsa_signal_t signal = make_signal(8);
  EXPECT_EQ(hsa_signal_wait_relaxed(signal, HSA_SIGNAL_CONDITION_LT, 8, 1000, HSA_WAIT_STATE_BLOCKED), 8);
  EXPECT_EQ(hsa_signal_wait_relaxed(signal, HSA_SIGNAL_CONDITION_EQ, 0, 0, HSA_WAIT_STATE_ACTIVE), 8);
  EXPECT_EQ(hsa_signal_wait_relaxed(signal, HSA_SIGNAL_CONDITION_GTE, 8, kTimeout, HSA_WAIT_STATE_ACTIVE), 8);
  EXPECT_EQ(hsa_signal_wait_relaxed(signal, HSA_SIGNAL_CONDITION_NE, 9, kTimeout, HSA_WAIT_STATE_ACTIVE), 8);
  EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Signals, WaitAnyFindsTheOneAndSkipsInvalidOnes) {
  hsa_signal_t signals[] = {{0}, make_signal(1), make_signal(1)};
  hsa_signal_condition_t conditions[3] = {HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_EQ,
                                          HSA_SIGNAL_CONDITION_EQ};
  hsa_signal_value_t values[3] = {0, 0, 0};
  hsa_signal_value_t seen = 77;
  EXPECT_EQ(hsa_amd_signal_wait_any(3, signals, conditions, values, 0, HSA_WAIT_STATE_BLOCKED, &seen),
            UINT32_MAX);
  std::thread storer([&] { hsa_signal_store_relaxed(signals[2], 0); });
  EXPECT_EQ(hsa_amd_signal_wait_any(3, signals, conditions, values, kTimeout, HSA_WAIT_STATE_BLOCKED, &seen),
            2u);
  EXPECT_EQ(seen, 0);
  storer.join();
  EXPECT_EQ(
      hsa_amd_signal_wait_any(1, signals, conditions, values, kTimeout, HSA_WAIT_STATE_BLOCKED, nullptr),
      UINT32_MAX);
  EXPECT_HSA(hsa_signal_destroy(signals[1]));
  EXPECT_HSA(hsa_signal_destroy(signals[2]));
}

TEST_F(Signals, WaitAllNeedsEveryOne) {
  hsa_signal_t signals[] = {make_signal(1), make_signal(1)};
  hsa_signal_condition_t conditions[2] = {HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_EQ};
  hsa_signal_value_t values[2] = {0, 0};
  hsa_signal_value_t seen[2] = {7, 7};
  hsa_signal_store_relaxed(signals[0], 0);
  EXPECT_EQ(hsa_amd_signal_wait_all(2, signals, conditions, values, 1000, HSA_WAIT_STATE_BLOCKED, seen),
            UINT32_MAX);
  EXPECT_EQ(seen[1], 1);
  std::thread storer([&] { hsa_signal_subtract_relaxed(signals[1], 1); });
  EXPECT_EQ(hsa_amd_signal_wait_all(2, signals, conditions, values, kTimeout, HSA_WAIT_STATE_BLOCKED, seen),
            0u);
  EXPECT_EQ(seen[1], 0);
  storer.join();
  for (const hsa_signal_t signal : signals) EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Signals, AHandlerIsCalledUntilItSaysNo) {
  struct Shared {
    std::atomic<int> calls{0};
    hsa_signal_t watched{0};
    hsa_signal_t done{0};
  } shared;
  shared.watched = make_signal(0);
  shared.done = make_signal(1);
  ASSERT_HSA(hsa_amd_signal_async_handler(
      shared.watched, HSA_SIGNAL_CONDITION_GTE, 1,
      [](hsa_signal_value_t value, void* data) {
        auto& state = *static_cast<Shared*>(data);
        EXPECT_EQ(value, 1);
        if (++state.calls < 3) return true;
        hsa_signal_store_screlease(state.watched, 0);
        hsa_signal_store_screlease(state.done, 0);
        return false;
      },
      &shared));
  hsa_signal_store_relaxed(shared.watched, 1);
  wait_for_zero(shared.done);
  EXPECT_EQ(shared.calls, 3);
  EXPECT_HSA(hsa_signal_destroy(shared.watched));
  EXPECT_HSA(hsa_signal_destroy(shared.done));
}

TEST_F(Signals, FunctionsAreRunOnTheHandlerThread) {
  hsa_signal_t done = make_signal(1);
  ASSERT_HSA(hsa_amd_async_function(
      [](void* data) { hsa_signal_store_relaxed(*static_cast<hsa_signal_t*>(data), 0); }, &done));
  wait_for_zero(done);
  EXPECT_EQ(hsa_amd_async_function(nullptr, nullptr), kInvalid);
  EXPECT_EQ(hsa_amd_signal_async_handler(
                {0x40}, HSA_SIGNAL_CONDITION_EQ, 0, [](hsa_signal_value_t, void*) { return false; }, nullptr),
            HSA_STATUS_ERROR_INVALID_SIGNAL);
  EXPECT_HSA(hsa_signal_destroy(done));
}

TEST_F(Signals, ThousandsOfSignalsOutnumberTheEvents) {
  std::vector<hsa_signal_t> signals;
  for (int i = 0; i < 5000; ++i) signals.push_back(make_signal(1));
  // The last ones have no event left; they work all the same.
  std::thread storer([&] { hsa_signal_store_relaxed(signals.back(), 0); });
  wait_for_zero(signals.back());
  storer.join();
  for (const hsa_signal_t signal : signals) ASSERT_HSA(hsa_signal_destroy(signal));
}

// Nothing but looking again can end this wait: no event is left for the device to raise, and a wait without
// end has no timeout to save it.
TEST_F(Signals, ADeviceEndsTheWaitForASignalWithoutAnEvent) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  constexpr size_t kSize = 1 << 20;
  void* source = allocate_shared(kSize);
  void* target = allocate_shared(kSize);
  std::memset(source, 0x5a, kSize);
  std::vector<hsa_signal_t> signals;
  for (int i = 0; i < 5000; ++i) signals.push_back(make_signal(1));
  ASSERT_EQ(reinterpret_cast<amd_signal_t*>(signals.back().handle)->event_id, 0u);
  ASSERT_HSA(hsa_amd_memory_async_copy(target, gpus[0], source, gpus[0], kSize, 0, nullptr, signals.back()));
  EXPECT_EQ(hsa_signal_wait_scacquire(signals.back(), HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX,
                                      HSA_WAIT_STATE_BLOCKED),
            0);
  EXPECT_EQ(std::memcmp(source, target, kSize), 0);
  for (const hsa_signal_t signal : signals) ASSERT_HSA(hsa_signal_destroy(signal));
  EXPECT_HSA(hsa_amd_memory_pool_free(source));
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
}

class Queues : public HsaTest {
 protected:
  void SetUp() override {
    HsaTest::SetUp();
    if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  }

  static hsa_queue_t* make_queue(hsa_agent_t agent,
                                 void (*callback)(hsa_status_t, hsa_queue_t*, void*) = nullptr,
                                 void* data = nullptr) {
    hsa_queue_t* queue = nullptr;
    EXPECT_HSA(
        hsa_queue_create(agent, 64, HSA_QUEUE_TYPE_MULTI, callback, data, UINT32_MAX, UINT32_MAX, &queue));
    return queue;
  }

  static hsa_barrier_and_packet_t barrier_and(hsa_signal_t dependency, hsa_signal_t completion) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = dependency;
    packet.completion_signal = completion;
    return packet;
  }

  template <class Packet>
  static void submit(hsa_queue_t* queue, Packet packet, uint16_t type) {
    static_assert(sizeof(Packet) == 64);
    const uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
    }
    auto* slot = static_cast<char*>(queue->base_address) + index % queue->size * 64;
    packet.header = HSA_PACKET_TYPE_INVALID;
    std::memcpy(slot, &packet, sizeof(packet));
    const uint16_t header = type << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                            HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                            HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
    __atomic_store_n(reinterpret_cast<uint16_t*>(slot), header, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
  }
};

TEST_F(Queues, BarriersCompleteInOrderOverTheWholeRing) {
  for (const hsa_agent_t gpu : gpus) {
    hsa_queue_t* queue = make_queue(gpu);
    constexpr int kPackets = 200;  // three times around
    const hsa_signal_t done = make_signal(kPackets);
    for (int i = 0; i < kPackets; ++i) submit(queue, barrier_and({0}, done), HSA_PACKET_TYPE_BARRIER_AND);
    wait_for_zero(done);
    EXPECT_EQ(hsa_queue_load_read_index_scacquire(queue), static_cast<uint64_t>(kPackets));
    EXPECT_HSA(hsa_queue_destroy(queue));
    EXPECT_HSA(hsa_signal_destroy(done));
  }
}

TEST_F(Queues, ABarrierWaitsForItsDependencies) {
  hsa_queue_t* queue = make_queue(gpus[0]);
  const hsa_signal_t first = make_signal(1);
  const hsa_signal_t second = make_signal(1);
  const hsa_signal_t done = make_signal(1);
  hsa_barrier_and_packet_t packet = barrier_and(first, done);
  packet.dep_signal[4] = second;
  submit(queue, packet, HSA_PACKET_TYPE_BARRIER_AND);
  hsa_signal_store_screlease(first, 0);
  EXPECT_EQ(hsa_signal_load_scacquire(done), 1);
  hsa_signal_store_screlease(second, 0);
  wait_for_zero(done);
  // An OR barrier needs only one.
  hsa_signal_store_relaxed(first, 1);
  hsa_signal_store_relaxed(done, 1);
  hsa_barrier_or_packet_t either{};
  either.dep_signal[0] = first;
  either.dep_signal[1] = second;
  either.completion_signal = done;
  submit(queue, either, HSA_PACKET_TYPE_BARRIER_OR);
  wait_for_zero(done);
  EXPECT_HSA(hsa_queue_destroy(queue));
  for (const hsa_signal_t signal : {first, second, done}) EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Queues, QueuesOfTwoGpusWaitForOneAnother) {
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  hsa_queue_t* first = make_queue(gpus[0]);
  hsa_queue_t* second = make_queue(gpus[1]);
  const hsa_signal_t start = make_signal(1);
  const hsa_signal_t middle = make_signal(1);
  const hsa_signal_t end = make_signal(1);
  submit(second, barrier_and(middle, end), HSA_PACKET_TYPE_BARRIER_AND);
  submit(first, barrier_and(start, middle), HSA_PACKET_TYPE_BARRIER_AND);
  hsa_signal_store_screlease(start, 0);
  wait_for_zero(end);
  EXPECT_HSA(hsa_queue_destroy(first));
  EXPECT_HSA(hsa_queue_destroy(second));
  for (const hsa_signal_t signal : {start, middle, end}) EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Queues, CreationChecksItsArguments) {
  hsa_queue_t* queue = nullptr;
  const auto create = [&](hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, hsa_queue_t** out) {
    return hsa_queue_create(agent, size, type, nullptr, nullptr, 0, 0, out);
  };
  EXPECT_EQ(create(gpus[0], 0, HSA_QUEUE_TYPE_MULTI, &queue), kInvalid);
  EXPECT_EQ(create(gpus[0], 100, HSA_QUEUE_TYPE_MULTI, &queue), kInvalid);
  EXPECT_EQ(create(gpus[0], 1u << 30, HSA_QUEUE_TYPE_MULTI, &queue), kInvalid);
  EXPECT_EQ(create(gpus[0], 64, 9, &queue), kInvalid);
  EXPECT_EQ(create(gpus[0], 64, HSA_QUEUE_TYPE_MULTI, nullptr), kInvalid);
  EXPECT_EQ(create({0}, 64, HSA_QUEUE_TYPE_MULTI, &queue), HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(create(cpus[0], 64, HSA_QUEUE_TYPE_MULTI, &queue), HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
  EXPECT_EQ(hsa_queue_destroy(nullptr), kInvalid);
  hsa_queue_t stranger{};
  EXPECT_EQ(hsa_queue_destroy(&stranger), HSA_STATUS_ERROR_INVALID_QUEUE);
}

TEST_F(Queues, MasksPrioritiesAndInformation) {
  hsa_queue_t* queue = make_queue(gpus[0]);
  hsa_agent_t agent{0};
  ASSERT_HSA(hsa_amd_queue_get_info(queue, HSA_AMD_QUEUE_INFO_AGENT, &agent));
  EXPECT_EQ(agent.handle, gpus[0].handle);
  EXPECT_HSA(hsa_amd_queue_set_priority(queue, HSA_AMD_QUEUE_PRIORITY_HIGH));
  EXPECT_EQ(hsa_amd_queue_set_priority(queue, static_cast<hsa_amd_queue_priority_t>(3)), kInvalid);
  const uint32_t first_four[] = {0xf};
  EXPECT_HSA(hsa_amd_queue_cu_set_mask(queue, 32, first_four));
  uint32_t mask[2] = {~0u, ~0u};
  EXPECT_HSA(hsa_amd_queue_cu_get_mask(queue, 64, mask));
  EXPECT_EQ(mask[0], 0xfu);
  EXPECT_EQ(mask[1], 0u);
  EXPECT_EQ(hsa_amd_queue_cu_set_mask(queue, 31, first_four), kInvalid);
  EXPECT_HSA(hsa_amd_queue_cu_set_mask(queue, 0, nullptr));
  EXPECT_HSA(hsa_queue_inactivate(queue));
  EXPECT_HSA(hsa_queue_destroy(queue));
}

TEST_F(Queues, ABadPacketIsReportedToTheCallback) {
  struct Seen {
    hsa_status_t status = HSA_STATUS_SUCCESS;
    hsa_queue_t* queue = nullptr;
    hsa_signal_t done{0};
  } seen;
  seen.done = make_signal(1);
  hsa_queue_t* queue = make_queue(
      gpus[0],
      [](hsa_status_t status, hsa_queue_t* source, void* data) {
        auto& report = *static_cast<Seen*>(data);
        report.status = status;
        report.queue = source;
        hsa_signal_store_screlease(report.done, 0);
      },
      &seen);
  constexpr uint16_t kNoSuchType = 77;
  submit(queue, hsa_barrier_and_packet_t{}, kNoSuchType);
  wait_for_zero(seen.done);
  EXPECT_EQ(seen.status, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
  EXPECT_EQ(seen.queue, queue);
  EXPECT_HSA(hsa_queue_destroy(queue));
  EXPECT_HSA(hsa_signal_destroy(seen.done));
}

class SoftQueues : public HsaTest {};

TEST_F(SoftQueues, AreRingsWithTheCallersDoorbell) {
  const hsa_signal_t doorbell = make_signal(-1);
  hsa_queue_t* queue = nullptr;
  const hsa_region_t region{fine_pool(cpus[0]).handle};
  ASSERT_HSA(hsa_soft_queue_create(region, 16, HSA_QUEUE_TYPE_SINGLE, HSA_QUEUE_FEATURE_AGENT_DISPATCH,
                                   doorbell, &queue));
  EXPECT_EQ(queue->size, 16u);
  EXPECT_EQ(queue->doorbell_signal.handle, doorbell.handle);
  EXPECT_EQ(hsa_queue_add_write_index_scacq_screl(queue, 3), 0u);
  EXPECT_EQ(hsa_queue_cas_write_index_relaxed(queue, 3, 4), 3u);
  EXPECT_EQ(hsa_queue_load_write_index_relaxed(queue), 4u);
  hsa_queue_store_read_index_screlease(queue, 2);
  EXPECT_EQ(hsa_queue_load_read_index_relaxed(queue), 2u);
  EXPECT_HSA(hsa_queue_destroy(queue));
  EXPECT_EQ(hsa_queue_destroy(queue), HSA_STATUS_ERROR_INVALID_QUEUE);
  EXPECT_HSA(hsa_signal_destroy(doorbell));
}

class Copies : public HsaTest {
 protected:
  void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = nullptr;
    EXPECT_HSA(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
    return memory;
  }
};

TEST_F(Copies, ChainsOfCopiesRunInTheOrderOfTheirSignals) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  constexpr size_t kSize = 5 * kPage + 3;
  const hsa_agent_t gpu = gpus[0];
  auto* source = static_cast<char*>(allocate_shared(kSize));
  auto* target = static_cast<char*>(allocate_shared(kSize));
  void* vram = allocate(coarse_pool(gpu), kSize);
  for (size_t i = 0; i < kSize; ++i) source[i] = static_cast<char>(i * 7);
  const hsa_signal_t start = make_signal(1);
  const hsa_signal_t up = make_signal(1);
  const hsa_signal_t down = make_signal(1);
  ASSERT_HSA(hsa_amd_memory_async_copy(target, cpus[0], vram, gpu, kSize, 1, &up, down));
  ASSERT_HSA(hsa_amd_memory_async_copy(vram, gpu, source, cpus[0], kSize, 1, &start, up));
  EXPECT_EQ(hsa_signal_load_scacquire(down), 1);
  hsa_signal_store_screlease(start, 0);
  wait_for_zero(down);
  EXPECT_EQ(std::memcmp(source, target, kSize), 0);
  for (void* memory : {static_cast<void*>(source), static_cast<void*>(target), vram}) {
    EXPECT_HSA(hsa_amd_memory_pool_free(memory));
  }
  for (const hsa_signal_t signal : {start, up, down}) EXPECT_HSA(hsa_signal_destroy(signal));
}

TEST_F(Copies, TheCpuCopiesWhereNoGpuTakesPart) {
  auto* source = static_cast<char*>(allocate(fine_pool(cpus[0]), kPage));
  auto* target = static_cast<char*>(allocate(fine_pool(cpus[0]), kPage));
  std::memset(source, 3, kPage);
  const hsa_signal_t start = make_signal(1);
  const hsa_signal_t done = make_signal(1);
  ASSERT_HSA(hsa_amd_profiling_async_copy_enable(true));
  ASSERT_HSA(hsa_amd_memory_async_copy(target, cpus[0], source, cpus[0], kPage, 1, &start, done));
  EXPECT_EQ(target[0], 0);
  hsa_signal_store_screlease(start, 0);
  wait_for_zero(done);
  EXPECT_EQ(target[kPage - 1], 3);
  hsa_amd_profiling_async_copy_time_t time{};
  ASSERT_HSA(hsa_amd_profiling_get_async_copy_time(done, &time));
  EXPECT_LE(time.start, time.end);
  EXPECT_GT(time.start, 0u);
  ASSERT_HSA(hsa_amd_profiling_async_copy_enable(false));
  EXPECT_HSA(hsa_amd_memory_pool_free(source));
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
  EXPECT_HSA(hsa_signal_destroy(start));
  EXPECT_HSA(hsa_signal_destroy(done));
}

TEST_F(Copies, GpuTimestampsAreInSystemTime) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  void* vram = allocate(coarse_pool(gpus[0]), kPage);
  void* host = allocate_shared(kPage);
  uint64_t before = 0;
  ASSERT_HSA(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before));
  ASSERT_HSA(hsa_amd_profiling_async_copy_enable(true));
  const hsa_signal_t done = make_signal();
  ASSERT_HSA(hsa_amd_memory_async_copy(vram, gpus[0], host, cpus[0], kPage, 0, nullptr, done));
  wait_for_zero(done);
  hsa_amd_profiling_async_copy_time_t time{};
  ASSERT_HSA(hsa_amd_profiling_get_async_copy_time(done, &time));
  uint64_t after = 0;
  ASSERT_HSA(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after));
  EXPECT_LE(time.start, time.end);
  constexpr uint64_t kSlackNs = 1'000'000;  // readings of two clocks are not taken at one moment
  EXPECT_GE(time.start + kSlackNs, before);
  EXPECT_LE(time.end, after + kSlackNs);
  ASSERT_HSA(hsa_amd_profiling_async_copy_enable(false));
  EXPECT_HSA(hsa_signal_destroy(done));
  EXPECT_HSA(hsa_amd_memory_pool_free(vram));
  EXPECT_HSA(hsa_amd_memory_pool_free(host));
}

TEST_F(Copies, MemoryCopyFindsOutWhereTheBytesAre) {
  std::vector<char> plain(3 * kPage + 1, 9);
  auto* shared = static_cast<char*>(allocate_shared(plain.size()));
  ASSERT_HSA(hsa_memory_copy(shared, plain.data(), plain.size()));
  EXPECT_EQ(shared[plain.size() - 1], 9);
  for (const hsa_agent_t gpu : gpus) {
    void* vram = allocate(coarse_pool(gpu), plain.size());
    ASSERT_HSA(hsa_memory_copy(vram, plain.data(), plain.size()));
    std::vector<char> back(plain.size());
    ASSERT_HSA(hsa_memory_copy(back.data(), vram, back.size()));
    EXPECT_EQ(back, plain);
    EXPECT_HSA(hsa_amd_memory_pool_free(vram));
  }
  EXPECT_EQ(hsa_memory_copy(nullptr, plain.data(), 1), kInvalid);
  EXPECT_HSA(hsa_memory_copy(shared, plain.data(), 0));
  EXPECT_HSA(hsa_amd_memory_pool_free(shared));
}

TEST_F(Copies, FillWritesDwords) {
  const hsa_agent_t owner = gpus.empty() ? cpus[0] : gpus[0];
  auto* memory = static_cast<uint32_t*>(allocate(coarse_pool(owner), 3 * kPage));
  ASSERT_HSA(hsa_amd_memory_fill(memory, 0xdeadbeef, kPage / 2));
  std::vector<uint32_t> seen(3 * kPage / 4);
  ASSERT_HSA(hsa_memory_copy(seen.data(), memory, 3 * kPage));
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0xdeadbeef), static_cast<long>(kPage / 2));
  EXPECT_EQ(seen[kPage / 2 - 1], 0xdeadbeef);
  EXPECT_EQ(hsa_amd_memory_fill(nullptr, 0, 1), kInvalid);
  EXPECT_EQ(hsa_amd_memory_fill(reinterpret_cast<char*>(memory) + 1, 0, 1), kInvalid);
  EXPECT_EQ(hsa_amd_memory_fill(memory, 0, kPage), HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_HSA(hsa_amd_memory_fill(memory, 0, 0));
  EXPECT_HSA(hsa_amd_memory_pool_free(memory));
}

TEST_F(Copies, RectanglesKeepTheirPitch) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  auto* source = static_cast<char*>(allocate_shared(kPage));
  auto* target = static_cast<char*>(allocate_shared(kPage));
  for (size_t i = 0; i < kPage; ++i) source[i] = static_cast<char>(i);
  const hsa_pitched_ptr_t from{source, 64, 64 * 8};
  const hsa_pitched_ptr_t to{target, 32, 32 * 8};
  const hsa_dim3_t from_offset{4, 1, 0};
  const hsa_dim3_t to_offset{0, 2, 1};
  const hsa_dim3_t range{16, 3, 2};
  const hsa_signal_t done = make_signal();
  ASSERT_HSA(hsa_amd_memory_async_copy_rect(&to, &to_offset, &from, &from_offset, &range, gpus[0],
                                            hsaDeviceToDevice, 0, nullptr, done));
  wait_for_zero(done);
  for (uint32_t z = 0; z < range.z; ++z) {
    for (uint32_t y = 0; y < range.y; ++y) {
      EXPECT_EQ(std::memcmp(target + (z + 1) * to.slice + (y + 2) * to.pitch,
                            source + z * from.slice + (y + 1) * from.pitch + 4, range.x),
                0);
    }
  }
  EXPECT_EQ(target[0], 0);
  EXPECT_EQ(hsa_amd_memory_async_copy_rect(&to, &to_offset, &from, &from_offset, &range, gpus[0],
                                           hsaHostToHost, 0, nullptr, done),
            kInvalid);
  EXPECT_EQ(hsa_amd_memory_async_copy_rect(&to, &to_offset, &from, &from_offset, &range, cpus[0],
                                           hsaDeviceToDevice, 0, nullptr, done),
            HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_HSA(hsa_amd_memory_pool_free(source));
  EXPECT_HSA(hsa_amd_memory_pool_free(target));
  EXPECT_HSA(hsa_signal_destroy(done));
}

TEST_F(Copies, LargeCopiesAreCutIntoPackets) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  constexpr size_t kSize = (size_t{9} << 20) + 17;
  auto* host = static_cast<char*>(allocate_shared(kSize));
  void* vram = allocate(coarse_pool(gpus[0]), kSize);
  std::memset(host, 1, kSize);
  host[kSize - 1] = 2;
  ASSERT_HSA(hsa_memory_copy(vram, host, kSize));
  std::memset(host, 0, kSize);
  ASSERT_HSA(hsa_memory_copy(host, vram, kSize));
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(host[kSize - 1], 2);
  EXPECT_HSA(hsa_amd_memory_pool_free(host));
  EXPECT_HSA(hsa_amd_memory_pool_free(vram));
}

TEST_F(Copies, ArgumentsAreChecked) {
  char byte = 0;
  const hsa_signal_t done = make_signal();
  EXPECT_EQ(hsa_amd_memory_async_copy(nullptr, cpus[0], &byte, cpus[0], 1, 0, nullptr, done), kInvalid);
  EXPECT_EQ(hsa_amd_memory_async_copy(&byte, cpus[0], &byte, cpus[0], 1, 1, nullptr, done), kInvalid);
  EXPECT_EQ(hsa_amd_memory_async_copy(&byte, {0}, &byte, cpus[0], 1, 0, nullptr, done),
            HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_memory_async_copy(&byte, cpus[0], &byte, cpus[0], 1, 0, nullptr, {0}),
            HSA_STATUS_ERROR_INVALID_SIGNAL);
  EXPECT_HSA(hsa_signal_destroy(done));
}

class Svm : public HsaTest {};

TEST_F(Svm, AttributesComeBackAsTheyWereSet) {
  if (gpus.empty()) GTEST_SKIP() << "needs a GPU";
  bool supported = false;
  ASSERT_HSA(hsa_system_get_info(HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED, &supported));
  if (!supported) GTEST_SKIP() << "this GPU has no shared virtual memory";
  std::vector<char> memory(4 * kPage);
  hsa_amd_svm_attribute_pair_t attributes[] = {
      {HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG, HSA_AMD_SVM_GLOBAL_FLAG_COARSE_GRAINED},
      {HSA_AMD_SVM_ATTRIB_READ_MOSTLY, 1},
      {HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION, gpus[0].handle},
      {HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, gpus[0].handle}};
  ASSERT_HSA(hsa_amd_svm_attributes_set(memory.data(), memory.size(), attributes, 4));
  hsa_amd_svm_attribute_pair_t answers[] = {{HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG, 0},
                                            {HSA_AMD_SVM_ATTRIB_READ_MOSTLY, 0},
                                            {HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION, 0},
                                            {HSA_AMD_SVM_ATTRIB_ACCESS_QUERY, gpus[0].handle}};
  ASSERT_HSA(hsa_amd_svm_attributes_get(memory.data(), memory.size(), answers, 4));
  EXPECT_EQ(answers[0].value, static_cast<uint64_t>(HSA_AMD_SVM_GLOBAL_FLAG_COARSE_GRAINED));
  EXPECT_EQ(answers[1].value, 1u);
  EXPECT_EQ(answers[2].value, gpus[0].handle);
  EXPECT_EQ(answers[3].attribute, static_cast<uint64_t>(HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE));

  hsa_amd_svm_attribute_pair_t twice[] = {{HSA_AMD_SVM_ATTRIB_READ_ONLY, 1},
                                          {HSA_AMD_SVM_ATTRIB_READ_ONLY, 0}};
  EXPECT_EQ(hsa_amd_svm_attributes_set(memory.data(), kPage, twice, 2),
            HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  hsa_amd_svm_attribute_pair_t unknown[] = {{0x999, 1}};
  EXPECT_EQ(hsa_amd_svm_attributes_set(memory.data(), kPage, unknown, 1), kInvalid);

  const hsa_signal_t done = make_signal();
  ASSERT_HSA(hsa_amd_svm_prefetch_async(memory.data(), memory.size(), gpus[0], 0, nullptr, done));
  wait_for_zero(done);
  EXPECT_HSA(hsa_signal_destroy(done));
}

}  // namespace
}  // namespace hsa_rt::test
