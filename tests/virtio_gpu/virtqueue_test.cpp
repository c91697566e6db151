#include "sim/virtio_gpu/wire/virtqueue.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sim/virtio_gpu/wire/ring_layout.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t kPage = kGuestPageBytes;

// A ring whose driver side is written by hand, to be as wrong as needed.
struct HandMadeRing {
  static constexpr std::uint16_t kSize = 8;

  HandMadeRing() : device(make_device()) {
    auto placed = memory.place_contiguous(data);
    data_placement = std::move(placed.value());
  }

  Result<DeviceQueue> make_device() {
    auto placed = memory.place_contiguous(pages);
    placement = std::move(placed.value());
    const std::uint64_t base = placement.address();
    return DeviceQueue::create(memory, {kSize, base, base + 1024, base + 2048}, {});
  }
  VirtqDescriptor& descriptor(std::uint16_t index) {
    return reinterpret_cast<VirtqDescriptor*>(pages->direct().data())[index];
  }
  std::span<std::byte> available() { return pages->direct().subspan(1024, ring::available_bytes(kSize)); }
  void publish(std::uint16_t head) {
    ring::set_available_entry(available(), published % kSize, head);
    ring::index_of(available()).store(++published);
  }
  std::string_view broken_by() {
    const PoppedRequest popped = device.value().pop();
    const auto* broken = std::get_if<QueueBroken>(&popped);
    return broken ? broken->reason : std::string_view{};
  }

  GuestMemory memory{1024 * kPage};
  std::shared_ptr<KernelPages> pages = std::make_shared<KernelPages>(kPage);
  std::shared_ptr<KernelPages> data = std::make_shared<KernelPages>(2 * kPage);
  Placement placement;
  Placement data_placement;
  Result<DeviceQueue> device;
  std::uint16_t published = 0;
};

struct Pair {
  explicit Pair(RingFeatures features = {}, std::uint16_t size = 8)
      : driver(DriverQueue::create(memory, size, features).value()),
        device(DeviceQueue::create(memory, driver.addresses(), features).value()) {
    data_placement = std::move(memory.place_contiguous(data).value());
  }
  MemoryRun run(std::uint64_t offset, std::uint64_t length) const {
    return {data_placement.address() + offset, length};
  }

  GuestMemory memory{1024 * kPage};
  DriverQueue driver;
  DeviceQueue device;
  std::shared_ptr<KernelPages> data = std::make_shared<KernelPages>(4 * kPage);
  Placement data_placement;
};

class BothLayouts : public testing::TestWithParam<bool> {};

TEST_P(BothLayouts, ARequestTravelsThereAndBack) {
  Pair pair({GetParam(), true});
  std::memcpy(pair.data->direct().data(), "question", 8);
  const MemoryRun out[] = {pair.run(0, 4), pair.run(4, 4)};
  const MemoryRun in[] = {pair.run(kPage, 16)};
  ASSERT_TRUE(pair.driver.add(out, in, 77));
  EXPECT_TRUE(pair.driver.kick_prepare());
  EXPECT_EQ(pair.driver.free_descriptors(), GetParam() ? 7 : 5);

  const PoppedRequest popped = pair.device.pop();
  const auto* chain = std::get_if<DescriptorChain>(&popped);
  ASSERT_NE(chain, nullptr);
  EXPECT_EQ(total_bytes(chain->readable), 8u);
  EXPECT_EQ(total_bytes(chain->writable), 16u);
  char question[9] = {};
  copy_from(chain->readable, 0, std::as_writable_bytes(std::span(question, 8)));
  EXPECT_STREQ(question, "question");
  const char answer[] = "answer";
  EXPECT_EQ(copy_to(chain->writable, 0, std::as_bytes(std::span(answer))), sizeof answer);
  EXPECT_TRUE(pair.device.push(chain->head, sizeof answer));

  const auto used = pair.driver.take_used();
  ASSERT_TRUE(used);
  EXPECT_EQ(used->token, 77u);
  EXPECT_EQ(used->length_bytes, sizeof answer);
  EXPECT_FALSE(pair.driver.take_used());
  EXPECT_EQ(pair.driver.free_descriptors(), 8);
  EXPECT_TRUE(std::holds_alternative<QueueEmpty>(pair.device.pop()));
}

TEST_P(BothLayouts, RequestsComeBackOutOfOrderManyTimesRound) {
  Pair pair({GetParam(), true}, 4);
  std::uint64_t next_token = 0;
  for (int round = 0; round < 40'000; ++round) {  // the 16-bit indices wrap
    const MemoryRun out[] = {pair.run(0, 8)};
    ASSERT_TRUE(pair.driver.add(out, {}, next_token++));
    ASSERT_TRUE(pair.driver.add(out, {}, next_token++));
    const auto first = std::get<DescriptorChain>(pair.device.pop());
    const auto second = std::get<DescriptorChain>(pair.device.pop());
    pair.device.push(second.head, 0);
    pair.device.push(first.head, 0);
    ASSERT_EQ(pair.driver.take_used()->token, next_token - 1);
    ASSERT_EQ(pair.driver.take_used()->token, next_token - 2);
    ASSERT_FALSE(pair.driver.take_used());
  }
  EXPECT_EQ(pair.driver.free_descriptors(), 4);
}

INSTANTIATE_TEST_SUITE_P(Descriptors, BothLayouts, testing::Bool(),
                         [](const auto& info) { return info.param ? "Indirect" : "Direct"; });

TEST(DriverQueue, FullQueueIsEnospc) {
  Pair pair({false, true}, 2);
  const MemoryRun out[] = {pair.run(0, 8), pair.run(8, 8)};
  ASSERT_TRUE(pair.driver.add(out, {}, 1));
  EXPECT_EQ(pair.driver.add(std::span(out, 1), {}, 2).error(), Errno(ENOSPC));
}

TEST(DriverQueue, UsedElementThatWasNotOutBreaksTheQueue) {
  Pair pair;
  const MemoryRun out[] = {pair.run(0, 8)};
  ASSERT_TRUE(pair.driver.add(out, {}, 1));
  const auto chain = std::get<DescriptorChain>(pair.device.pop());
  pair.device.push(chain.head, 0);
  pair.device.push(chain.head, 0);
  EXPECT_TRUE(pair.driver.take_used());
  EXPECT_FALSE(pair.driver.take_used());
  EXPECT_TRUE(pair.driver.is_broken());
}

TEST(DriverQueue, SecondKickWaitsForTheDeviceToCatchUp) {
  Pair pair;
  const MemoryRun out[] = {pair.run(0, 8)};
  ASSERT_TRUE(pair.driver.add(out, {}, 1));
  EXPECT_TRUE(pair.driver.kick_prepare());
  ASSERT_TRUE(pair.driver.add(out, {}, 2));
  EXPECT_FALSE(pair.driver.kick_prepare());
  pair.device.pop();
  pair.device.pop();
  ASSERT_TRUE(pair.driver.add(out, {}, 3));
  EXPECT_TRUE(pair.driver.kick_prepare());
}

TEST(DeviceQueue, RefusesSizesThatAreNoPowerOfTwoAndRingsOutsideMemory) {
  GuestMemory memory(64 * kPage);
  auto placement = memory.place_contiguous(std::make_shared<KernelPages>(16 * kPage));
  const std::uint64_t base = placement.value().address();
  EXPECT_EQ(DeviceQueue::create(memory, {0, base, base + 1024, base + 2048}, {}).error(), Errno(EINVAL));
  EXPECT_EQ(DeviceQueue::create(memory, {12, base, base + 1024, base + 2048}, {}).error(), Errno(EINVAL));
  EXPECT_EQ(DeviceQueue::create(memory, {2048, base, base, base}, {}).error(), Errno(EINVAL));
  EXPECT_EQ(DeviceQueue::create(memory, {8, base, base + 1025, base + 2048}, {}).error(), Errno(EINVAL));
  EXPECT_EQ(DeviceQueue::create(memory, {8, 0, base + 1024, base + 2048}, {}).error(), Errno(EFAULT));
  EXPECT_EQ(DeviceQueue::create(memory, {8, base, base + 16 * kPage - 2, base}, {}).error(), Errno(EFAULT));
}

TEST(DeviceQueue, ZeroLengthDescriptorBreaksTheQueueForGood) {
  HandMadeRing ring;
  ring.descriptor(0) = {ring.data_placement.address(), 0, 0, 0};
  ring.publish(0);
  EXPECT_EQ(ring.broken_by(), "virtio: zero sized buffers are not allowed");
  ring.descriptor(0).length = 8;
  ring.publish(0);
  EXPECT_TRUE(std::holds_alternative<QueueEmpty>(ring.device.value().pop()));
}

TEST(DeviceQueue, AddressOutsideMemoryBreaksTheQueue) {
  HandMadeRing ring;
  ring.descriptor(0) = {ring.data_placement.address() + 2 * kPage - 4, 8, 0, 0};
  ring.publish(0);
  EXPECT_EQ(ring.broken_by(), "virtio: bogus descriptor or out of resources");
}

TEST(DeviceQueue, LoopOfDescriptorsBreaksTheQueue) {
  HandMadeRing ring;
  ring.descriptor(0) = {ring.data_placement.address(), 8, VirtqDescriptor::kNext, 1};
  ring.descriptor(1) = {ring.data_placement.address(), 8, VirtqDescriptor::kNext, 0};
  ring.publish(0);
  EXPECT_EQ(ring.broken_by(), "Looped descriptor");
}

TEST(DeviceQueue, HeadAndNextBeyondTheTableBreakTheQueue) {
  {
    HandMadeRing ring;
    ring.publish(HandMadeRing::kSize);
    EXPECT_EQ(ring.broken_by(), "Guest says index is available");
  }
  {
    HandMadeRing ring;
    ring.descriptor(0) = {ring.data_placement.address(), 8, VirtqDescriptor::kNext, HandMadeRing::kSize};
    ring.publish(0);
    EXPECT_EQ(ring.broken_by(), "Desc next is beyond the table");
  }
}

TEST(DeviceQueue, ReadableAfterWritableBreaksTheQueue) {
  HandMadeRing ring;
  ring.descriptor(0) = {ring.data_placement.address(), 8, VirtqDescriptor::kNext | VirtqDescriptor::kWrite,
                        1};
  ring.descriptor(1) = {ring.data_placement.address(), 8, 0, 0};
  ring.publish(0);
  EXPECT_EQ(ring.broken_by(), "Incorrect order for descriptors");
}

TEST(DeviceQueue, AvailableIndexThatJumpsBreaksTheQueue) {
  HandMadeRing ring;
  ring::index_of(ring.available()).store(HandMadeRing::kSize + 1);
  EXPECT_EQ(ring.broken_by(), "Guest moved used index");
}

TEST(DeviceQueue, IndirectTableMustBeWholeDescriptorsInMemory) {
  for (const std::uint32_t length : {0u, 8u, 24u}) {
    HandMadeRing ring;
    ring.descriptor(0) = {ring.data_placement.address(), length, VirtqDescriptor::kIndirect, 0};
    ring.publish(0);
    EXPECT_EQ(ring.broken_by(), "Invalid size for indirect buffer table") << length;
  }
  HandMadeRing ring;
  ring.descriptor(0) = {0, 32, VirtqDescriptor::kIndirect, 0};
  ring.publish(0);
  EXPECT_EQ(ring.broken_by(), "Cannot map indirect buffer");
}

TEST(DeviceQueue, MoreThan1024ElementsBreakTheQueue) {
  Pair pair;
  const MemoryRun response[] = {pair.run(kPage, 8)};
  const std::vector<MemoryRun> most(DeviceQueue::kMaxElements - 1, pair.run(0, 8));
  ASSERT_TRUE(pair.driver.add(most, response, 1));
  const PoppedRequest popped = pair.device.pop();
  EXPECT_TRUE(std::holds_alternative<DescriptorChain>(popped));

  const std::vector<MemoryRun> too_many(DeviceQueue::kMaxElements, pair.run(0, 8));
  ASSERT_TRUE(pair.driver.add(too_many, response, 2));
  const PoppedRequest broken = pair.device.pop();
  ASSERT_TRUE(std::holds_alternative<QueueBroken>(broken));
  EXPECT_EQ(std::get<QueueBroken>(broken).reason, "virtio: too many write descriptors in indirect table");
}

}  // namespace
}  // namespace understudy::virtio_gpu
