#include <numeric>

#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

class SdmaTest : public QueueTest {
 protected:
  std::vector<std::uint32_t> copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    return {1, static_cast<std::uint32_t>(bytes - 1), 0, low(from), high(from), low(to), high(to)};
  }
  std::vector<std::uint32_t> fence(std::uint64_t address, std::uint32_t value) {
    return {5, low(address), high(address), value};
  }
  static void fill_pattern(const Memory& memory, std::uint8_t seed) {
    auto* const bytes = memory.as<std::uint8_t>();
    for (std::uint64_t index = 0; index < memory.size; ++index) {
      bytes[index] = static_cast<std::uint8_t>(index * 7 + index / 251 + seed);
    }
  }
};

TEST_F(SdmaTest, CopiesAnyBytesAtAnyOffset) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory from = make_memory(64 * kKiB), to = make_memory(64 * kKiB);
  fill_pattern(from, 3);
  for (const auto& [source, target, bytes] :
       {std::array<std::uint64_t, 3>{0, 0, 1}, {1, 7, 3}, {4095, 1, 4097}, {13, 4090, 60000}}) {
    std::memset(to.as<char>(), 0, to.size);
    submit(queue, copy(to.va + target, from.va + source, bytes));
    wait_done(queue);
    EXPECT_EQ(std::memcmp(to.as<char>() + target, from.as<char>() + source, bytes), 0);
    EXPECT_EQ(to.as<char>()[target + bytes], 0);
  }
}

TEST_F(SdmaTest, CopiesBetweenVramAndUserPagesBothWays) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory vram = make_memory(3 * kMiB, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
                                                KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
  const Pages source(3 * kMiB), target(3 * kMiB);
  std::iota(source.as<std::uint32_t>(), source.as<std::uint32_t>() + 3 * kMiB / 4, 17);
  const std::uint64_t source_va = 0x6000'0000'0000, target_va = 0x6100'0000'0000;
  constexpr std::uint32_t kUserptr = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  const auto a = alloc(kfd_, kUserptr, 3 * kMiB, source_va, source.address());
  const auto b = alloc(kfd_, kUserptr, 3 * kMiB, target_va, target.address());
  ASSERT_EQ(map(kfd_, a.handle, {0x1234}).result, 0);
  ASSERT_EQ(map(kfd_, b.handle, {0x1234}).result, 0);
  submit(queue, copy(vram.va, source_va, 3 * kMiB));
  submit(queue, copy(target_va, vram.va, 3 * kMiB));
  wait_done(queue);
  EXPECT_EQ(std::memcmp(source.as<char>(), target.as<char>(), 3 * kMiB), 0);
  std::memset(target.as<char>(), 0, 3 * kMiB);
  submit(queue, copy(target_va, source_va, 3 * kMiB));
  wait_done(queue);
  EXPECT_EQ(std::memcmp(source.as<char>(), target.as<char>(), 3 * kMiB), 0);
}

TEST_F(SdmaTest, RingWrapsInsideAPacket) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory target = make_memory(kPage);
  // NOPs up to two dwords before the end of the ring.
  submit(queue, std::vector<std::uint32_t>(kRingBytes / 4 - 2, 0));
  wait_done(queue);
  submit(queue, fence(target.va, 0xfeed));
  wait_done(queue);
  EXPECT_EQ(target.as<std::uint32_t>()[0], 0xfeedu);
}

TEST_F(SdmaTest, NopSkipsItsPayload) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory target = make_memory(kPage);
  submit(queue, {3u << 16, 0xffffffff, 0xffffffff, 0xffffffff, 5, low(target.va), high(target.va), 1});
  wait_done(queue);
  EXPECT_EQ(target.as<std::uint32_t>()[0], 1u);
}

TEST_F(SdmaTest, ConstantFillLeavesOutNothing) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory target = make_memory(kPage);
  submit(queue, {2u << 30 | 11, low(target.va + 8), high(target.va), 0xcafef00d, (5 - 1) * 4});
  wait_done(queue);
  const auto* const dwords = target.as<std::uint32_t>();
  EXPECT_EQ(dwords[1], 0u);
  for (int index = 2; index < 7; ++index) EXPECT_EQ(dwords[index], 0xcafef00du);
  EXPECT_EQ(dwords[7], 0u);
}

TEST_F(SdmaTest, WriteCarriesItsDataInThePacket) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory target = make_memory(kPage);
  submit(queue, {2, low(target.va), high(target.va), 3 - 1, 11, 22, 33});
  wait_done(queue);
  EXPECT_EQ(target.as<std::uint32_t>()[2], 33u);
}

TEST_F(SdmaTest, WindowCopyMovesRowsOfAPitchedVolume) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory from = make_memory(64 * kKiB), to = make_memory(64 * kKiB);
  for (std::uint32_t index = 0; index < 16 * 1024; ++index) from.as<std::uint32_t>()[index] = index;
  // 4-byte elements; source pitch 32, slice 32*8, corner (1,2,3); target pitch 16, slice 16*8, corner
  // (4,5,6); 3x2x2.
  submit(queue, {2u << 29 | 4u << 8 | 1, low(from.va), high(from.va), 2u << 16 | 1, 31u << 13 | 3, 32 * 8 - 1,
                 low(to.va), high(to.va), 5u << 16 | 4, 15u << 13 | 6, 16 * 8 - 1, 1u << 16 | 2, 1});
  wait_done(queue);
  for (std::uint32_t z = 0; z < 2; ++z) {
    for (std::uint32_t y = 0; y < 2; ++y) {
      for (std::uint32_t x = 0; x < 3; ++x) {
        const std::uint32_t expected = (3 + z) * 32 * 8 + (2 + y) * 32 + 1 + x;
        EXPECT_EQ(to.as<std::uint32_t>()[(6 + z) * 16 * 8 + (5 + y) * 16 + 4 + x], expected);
      }
    }
  }
}

TEST_F(SdmaTest, PollWaitsAndLetsOtherQueuesWork) {
  auto waiting = make_queue(KFD_IOC_QUEUE_TYPE_SDMA), other = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  memory.as<std::uint32_t>()[0] = 5;
  submit(waiting,
         {1u << 31 | 3u << 28 | 8, low(memory.va), high(memory.va), 0, 0xffffffff, 0xfffu << 16 | 4});
  submit(waiting, fence(memory.va + 8, 1));
  submit(other, fence(memory.va + 16, 2));
  wait_done(other);
  EXPECT_EQ(memory.as<std::uint32_t>()[4], 2u);
  EXPECT_EQ(memory.as<std::uint32_t>()[2], 0u);
  submit(other, fence(memory.va, 0));
  wait_done(waiting);
  EXPECT_EQ(memory.as<std::uint32_t>()[2], 1u);
}

TEST_F(SdmaTest, HdpFlushIsNoPoll) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  submit(queue, {8, 0, 0x80000000, 0, 0, 0});
  wait_done(queue);
}

TEST_F(SdmaTest, AtomicAddSubtractsOneFromASignal) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  memory.as<std::uint64_t>()[1] = 3;
  submit(queue, {47u << 25 | 10, low(memory.va + 8), high(memory.va), 0xffffffff, 0xffffffff, 0, 0, 0});
  wait_done(queue);
  EXPECT_EQ(memory.as<std::uint64_t>()[1], 2u);
}

TEST_F(SdmaTest, TimestampIsTheGpuClock) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  const std::uint64_t before = gpus_[0]->clock_counter();
  submit(queue, {2u << 8 | 13, low(memory.va), high(memory.va)});
  wait_done(queue);
  EXPECT_GE(memory.as<std::uint64_t>()[0], before);
  EXPECT_LE(memory.as<std::uint64_t>()[0], gpus_[0]->clock_counter());
}

TEST_F(SdmaTest, CacheControlAndRegisterWritesDoNothing) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  submit(queue, {1u << 8 | 17, 0, 0, 0, 0, 14, 0, 0});
  wait_done(queue);
}

TEST_F(SdmaTest, IndirectBufferRunsBeforeWhatFollows) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory buffer = make_memory(kPage), target = make_memory(kPage);
  const auto inside = fence(target.va, 7);
  std::copy(inside.begin(), inside.end(), buffer.as<std::uint32_t>());
  submit(queue, {4, low(buffer.va), high(buffer.va), 4, 0, 0});
  submit(queue, copy(target.va + 8, target.va, 4));
  wait_done(queue);
  EXPECT_EQ(target.as<std::uint32_t>()[2], 7u);
}

TEST_F(SdmaTest, ConditionalExecutionSkips) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  submit(queue, {9, low(memory.va), high(memory.va), 1, 4, 5, low(memory.va + 8), high(memory.va), 99});
  submit(queue, {9, low(memory.va), high(memory.va), 0, 4, 5, low(memory.va + 16), high(memory.va), 99});
  wait_done(queue);
  EXPECT_EQ(memory.as<std::uint32_t>()[2], 0u);
  EXPECT_EQ(memory.as<std::uint32_t>()[4], 99u);
}

TEST_F(SdmaTest, TrapSignalsTheEventWhoseSlotWasWritten) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory page = make_memory(32768);
  kfd_ioctl_create_event_args event{};
  event.event_page_offset = page.handle;
  event.auto_reset = 1;
  ASSERT_EQ(ioctl<CreateEvent>(kfd_, event), 0);
  kfd_event_data data{};
  data.event_id = event.event_id;
  kfd_ioctl_wait_events_args wait{};
  wait.events_ptr = reinterpret_cast<std::uint64_t>(&data);
  wait.num_events = 1;
  wait.timeout = 0xffffffff;
  auto [call, answer] = start<WaitEvents>(kfd_, wait, self());
  submit(queue, fence(page.va + event.event_id * 8, event.event_id));
  submit(queue, {6, event.event_id});
  EXPECT_EQ(answer.get(), 0);
  EXPECT_EQ(wait.wait_result, KFD_IOC_WAIT_RESULT_COMPLETE);
}

class SdmaFault : public SdmaTest {
 protected:
  void SetUp() override {
    SdmaTest::SetUp();
    kfd_ioctl_create_event_args event{};
    event.event_type = KFD_IOC_EVENT_MEMORY;
    ASSERT_EQ(ioctl<CreateEvent>(kfd_, event), 0);
    data_.event_id = event.event_id;
  }
  kfd_hsa_memory_exception_data wait_for_fault() {
    kfd_ioctl_wait_events_args wait{};
    wait.events_ptr = reinterpret_cast<std::uint64_t>(&data_);
    wait.num_events = 1;
    wait.timeout = 0xffffffff;
    EXPECT_EQ(ioctl<WaitEvents>(kfd_, wait), 0);
    return data_.memory_exception_data;
  }
  kfd_event_data data_{};
};

TEST_F(SdmaFault, UnmappedAddressIsNotPresent) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  submit(queue, copy(0x1000'0123'4567, memory.va, 16));
  const auto fault = wait_for_fault();
  EXPECT_EQ(fault.va, 0x1000'0123'4000u);
  EXPECT_EQ(fault.gpu_id, 0x1234u);
  EXPECT_EQ(fault.failure.NotPresent, 1u);
  EXPECT_EQ(fault.failure.ReadOnly, 0u);
}

TEST_F(SdmaFault, WriteToReadOnlyMemorySaysSo) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage, KFD_IOC_ALLOC_MEM_FLAGS_GTT);
  submit(queue, fence(memory.va, 1));
  const auto fault = wait_for_fault();
  EXPECT_EQ(fault.failure.NotPresent, 0u);
  EXPECT_EQ(fault.failure.ReadOnly, 1u);
}

TEST_F(SdmaFault, CopyPastTheEndFaultsOnTheFirstMissingPage) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory from = make_memory(8 * kKiB), to = make_memory(kPage);
  std::memset(from.as<char>(), 1, from.size);
  submit(queue, copy(to.va, from.va, 8 * kKiB));
  EXPECT_EQ(wait_for_fault().va, to.va + kPage);
  EXPECT_EQ(to.as<char>()[kPage - 1], 1);
}

TEST_F(SdmaFault, UserPagesThatVanishedFault) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory to = make_memory(kPage);
  const std::uint64_t va = 0x6000'0000'0000;
  const Pages pages(kPage);
  const auto memory = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, va, pages.address());
  ASSERT_EQ(map(kfd_, memory.handle, {0x1234}).result, 0);
  ASSERT_EQ(::mprotect(pages.as<void>(), kPage, PROT_NONE), 0);
  submit(queue, copy(to.va, va, 16));
  EXPECT_EQ(wait_for_fault().va, va);
}

TEST_F(SdmaFault, StopsEveryQueueOfTheProcessOnThatGpu) {
  auto faulting = make_queue(KFD_IOC_QUEUE_TYPE_SDMA), other = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  submit(faulting, copy(kBadPointer, memory.va, 16));
  wait_for_fault();
  submit(other, fence(memory.va, 1));
  EXPECT_EQ(destroy(other), 0);
  EXPECT_EQ(memory.as<std::uint32_t>()[0], 0u);
}

TEST_F(SdmaTest, GarbageStopsTheQueueAndNothingElse) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA), other = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  submit(queue, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff});
  submit(other, fence(memory.va, 1));
  wait_done(other);
  EXPECT_EQ(destroy(queue), 0);
}

TEST_F(SdmaTest, DoorbellFarBeyondTheRingStopsTheQueue) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA), other = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  queue.ring_doorbell(std::uint64_t{1} << 60);
  submit(other, fence(memory.va, 1));
  wait_done(other);
  EXPECT_EQ(destroy(queue), 0);
}

TEST_F(SdmaTest, InactiveQueueWorksOnceItIsActivated) {
  auto queue = prepare(KFD_IOC_QUEUE_TYPE_SDMA);
  queue.args.queue_percentage = 0;
  create(queue);
  ASSERT_EQ(queue.result, 0);
  const Memory memory = make_memory(kPage);
  submit(queue, fence(memory.va, 1));
  kfd_ioctl_update_queue_args args{queue.ring.va, queue.args.queue_id, static_cast<std::uint32_t>(kRingBytes),
                                   100, 7};
  EXPECT_EQ(ioctl<UpdateQueue>(kfd_, args), 0);
  wait_done(queue);
  EXPECT_EQ(memory.as<std::uint32_t>()[0], 1u);
}

TEST_F(SdmaTest, FreeingMemoryDuringACopyHarmsNobody) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  for (int round = 0; round < 20; ++round) {
    Memory from = make_memory(8 * kMiB), to = make_memory(8 * kMiB);
    submit(queue, copy(to.va, from.va, 4 * kMiB));
    submit(queue, copy(to.va, from.va, 4 * kMiB));
    from.mapping = {};
    to.mapping = {};
    (void)unmap(kfd_, from.handle, {0x1234});
    (void)free(kfd_, from.handle);
    EXPECT_EQ(destroy(queue), 0);
    queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  }
}

TEST_F(SdmaTest, RegisteredMemoryIsReachableWithoutABo) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory to = make_memory(kPage);
  const Pages pages(kPage);
  pages.as<std::uint32_t>()[0] = 0x5a5a;
  ASSERT_EQ(set_svm(kfd_, pages.address(), kPage, {{KFD_IOCTL_SVM_ATTR_ACCESS, 0x1234}}), 0);
  submit(queue, copy(to.va, pages.address(), 4));
  wait_done(queue);
  EXPECT_EQ(to.as<std::uint32_t>()[0], 0x5a5au);
}

}  // namespace
}  // namespace understudy::kfd::testing
