#include "sim/kfd/engine/indirect_buffer.h"
#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

// Type-3 header of a packet of `length` dwords.
constexpr std::uint32_t pm4(std::uint32_t opcode, std::uint32_t length) {
  return 3u << 30 | (length - 2) << 16 | opcode << 8;
}

class Pm4Test : public QueueTest {
 protected:
  void SetUp() override {
    QueueTest::SetUp();
    queue_ = make_queue(KFD_IOC_QUEUE_TYPE_COMPUTE);
    memory_ = make_memory(kPage);
  }
  std::uint32_t& word(unsigned index) const { return memory_.as<std::uint32_t>()[index]; }
  std::uint64_t at(unsigned index) const { return memory_.va + index * 4; }

  UserQueue queue_;
  Memory memory_;
};

TEST_F(Pm4Test, WriteDataWritesMemoryAndSwallowsRegisters) {
  submit(queue_, {pm4(0x37, 6), 5u << 8, low(at(0)), high(at(0)), 1, 2});
  submit(queue_, {pm4(0x37, 5), 0, low(at(4)), high(at(4)), 3});
  wait_done(queue_);
  EXPECT_EQ(word(0), 1u);
  EXPECT_EQ(word(1), 2u);
  EXPECT_EQ(word(4), 0u);
}

TEST_F(Pm4Test, WriteDataToOneAddressLeavesTheLastValue) {
  submit(queue_, {pm4(0x37, 6), 1u << 16 | 5u << 8, low(at(0)), high(at(0)), 1, 2});
  wait_done(queue_);
  EXPECT_EQ(word(0), 2u);
  EXPECT_EQ(word(1), 0u);
}

TEST_F(Pm4Test, ReleaseMemWritesDataAndInterrupts) {
  const Memory page = make_memory(32768);
  kfd_ioctl_create_event_args event{};
  event.event_page_offset = page.handle;
  ASSERT_EQ(ioctl<CreateEvent>(kfd_, event), 0);
  kfd_event_data data{};
  data.event_id = event.event_id;
  kfd_ioctl_wait_events_args wait{};
  wait.events_ptr = reinterpret_cast<std::uint64_t>(&data);
  wait.num_events = 1;
  wait.timeout = 0xffffffff;
  auto [call, answer] = start<WaitEvents>(kfd_, wait, self());
  const std::uint64_t slot = page.va + event.event_id * 8;
  submit(queue_,
         {pm4(0x49, 8), 0, 2u << 29 | 2u << 24, low(slot), high(slot), event.event_id, 0, event.event_id});
  EXPECT_EQ(answer.get(), 0);
}

TEST_F(Pm4Test, ReleaseMemSelectsWidthAndClock) {
  submit(queue_, {pm4(0x49, 8), 0, 1u << 29, low(at(0)), high(at(0)), 0x11, 0x22, 0});
  submit(queue_, {pm4(0x49, 8), 0, 2u << 29, low(at(4)), high(at(4)), 0x11, 0x22, 0});
  submit(queue_, {pm4(0x49, 8), 0, 3u << 29, low(at(8)), high(at(8)), 0, 0, 0});
  wait_done(queue_);
  EXPECT_EQ(word(0), 0x11u);
  EXPECT_EQ(word(1), 0u);
  EXPECT_EQ(word(5), 0x22u);
  EXPECT_NE(memory_.as<std::uint64_t>()[4], 0u);
}

TEST_F(Pm4Test, WaitRegMemWaitsForMemory) {
  submit(queue_, {pm4(0x3c, 7), 1u << 4 | 3, low(at(0)), high(at(0)), 7, 0xff, 4});
  submit(queue_, {pm4(0x37, 5), 5u << 8, low(at(4)), high(at(4)), 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(word(4)).load(), 0u);
  std::atomic_ref(word(0)).store(0x1107);
  wait_done(queue_);
  EXPECT_EQ(word(4), 1u);
}

TEST_F(Pm4Test, CopyDataMovesMemoryImmediateAndClock) {
  word(0) = 5;
  word(1) = 6;
  submit(queue_, {pm4(0x40, 6), 1u << 16 | 5u << 8 | 1, low(at(0)), high(at(0)), low(at(4)), high(at(4))});
  submit(queue_, {pm4(0x40, 6), 5u << 8 | 5, 99, 0, low(at(8)), high(at(8))});
  submit(queue_, {pm4(0x40, 6), 1u << 16 | 5u << 8 | 9, 0, 0, low(at(12)), high(at(12))});
  wait_done(queue_);
  EXPECT_EQ(word(4), 5u);
  EXPECT_EQ(word(5), 6u);
  EXPECT_EQ(word(8), 99u);
  EXPECT_NE(memory_.as<std::uint64_t>()[6], 0u);
}

TEST_F(Pm4Test, DmaDataCopiesAndFills) {
  const Memory target = make_memory(kPage);
  word(0) = 0xabcd;
  submit(queue_, {pm4(0x50, 7), 0, low(at(0)), high(at(0)), low(target.va), high(target.va), 4});
  submit(queue_, {pm4(0x50, 7), 2u << 29, 0x77, 0, low(target.va + 16), high(target.va), 8});
  wait_done(queue_);
  EXPECT_EQ(target.as<std::uint32_t>()[0], 0xabcdu);
  EXPECT_EQ(target.as<std::uint32_t>()[5], 0x77u);
  EXPECT_EQ(target.as<std::uint32_t>()[6], 0u);
}

TEST_F(Pm4Test, AtomicMemOperates) {
  word(0) = 10;
  memory_.as<std::uint64_t>()[4] = 5;
  submit(queue_, {pm4(0x1e, 9), 15, low(at(0)), high(at(0)), 3, 0, 0, 0, 0});
  submit(queue_, {pm4(0x1e, 9), 40, low(at(8)), high(at(8)), 9, 0, 5, 0, 0});
  wait_done(queue_);
  EXPECT_EQ(word(0), 13u);
  EXPECT_EQ(memory_.as<std::uint64_t>()[4], 9u);
}

TEST_F(Pm4Test, IndirectBuffersNest) {
  const Memory outer = make_memory(kPage), inner = make_memory(kPage);
  const std::uint32_t write[] = {pm4(0x37, 5), 5u << 8, low(at(0)), high(at(0)), 4};
  std::memcpy(inner.as<char>(), write, sizeof write);
  const std::uint32_t call[] = {pm4(0x3f, 4), low(inner.va), high(inner.va), 5};
  std::memcpy(outer.as<char>(), call, sizeof call);
  submit(queue_, {pm4(0x3f, 4), low(outer.va), high(outer.va), 4});
  submit(queue_, {pm4(0x40, 6), 5u << 8 | 1, low(at(0)), high(at(0)), low(at(1)), high(at(1))});
  wait_done(queue_);
  EXPECT_EQ(word(1), 4u);
}

TEST_F(Pm4Test, BufferThatCallsItselfStopsTheQueue) {
  const Memory buffer = make_memory(kPage);
  const std::uint32_t call[] = {pm4(0x3f, 4), low(buffer.va), high(buffer.va), 4};
  std::memcpy(buffer.as<char>(), call, sizeof call);
  submit(queue_, {pm4(0x3f, 4), low(buffer.va), high(buffer.va), 4});
  auto other = make_queue(KFD_IOC_QUEUE_TYPE_COMPUTE);
  submit(other, {pm4(0x37, 5), 5u << 8, low(at(0)), high(at(0)), 1});
  wait_done(other);
  EXPECT_EQ(destroy(queue_), 0);
}

TEST_F(Pm4Test, NopsOfEverySizeAndTypeTwo) {
  submit(queue_,
         {3u << 30 | 0x3fffu << 16 | 0x10u << 8, 2u << 30, pm4(0x10, 3), 0xffff, 0xffff, pm4(0x46, 2), 0});
  wait_done(queue_);
}

TEST_F(Pm4Test, PacketTooShortForItsFieldsStopsTheQueue) {
  submit(queue_, {pm4(0x49, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0});
  auto other = make_queue(KFD_IOC_QUEUE_TYPE_COMPUTE);
  submit(other, {pm4(0x37, 5), 5u << 8, low(at(0)), high(at(0)), 1});
  wait_done(other);
  EXPECT_NE(queue_.read_pointer(), queue_.wptr);
}

TEST_F(Pm4Test, SubmissionOfARenderFileRunsWithoutAQueue) {
  const Memory buffer = make_memory(kPage);
  const std::uint32_t commands[] = {1, 3, 0, low(at(0)), high(at(0)), low(at(8)), high(at(8))};
  std::memcpy(buffer.as<char>(), commands, sizeof commands);
  word(0) = 0x1234;
  engine::IndirectBuffer run(*gpus_[0], render_files_[0]->vm(), engine::IndirectBufferKind::kSdma, buffer.va,
                             7);
  engine::Budget budget(kMiB);
  EXPECT_EQ(run.run(budget), engine::RunStatus::kIdle);
  EXPECT_EQ(word(8), 0x1234u);
}

TEST_F(Pm4Test, SubmissionThatFaultsSaysWhere) {
  engine::IndirectBuffer run(*gpus_[0], render_files_[0]->vm(), engine::IndirectBufferKind::kPm4, 0x123000,
                             4);
  engine::Budget budget(kMiB);
  EXPECT_EQ(run.run(budget), engine::RunStatus::kFault);
  EXPECT_EQ(run.fault()->address, 0x123000u);
}

}  // namespace
}  // namespace understudy::kfd::testing
