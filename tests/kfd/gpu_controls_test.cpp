// What fault plans do to GPUs.
#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint32_t kVram =
    KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;

class GpuControls : public QueueTest {
 protected:
  void press(const char* action, ControlArguments arguments = {}, const char* device = "dri/renderD128") {
    EXPECT_TRUE(machine_->controls().run(device, action, arguments)) << action;
  }
  std::uint32_t make_event(std::uint32_t type) {
    kfd_ioctl_create_event_args event{};
    event.event_type = type;
    event.auto_reset = 1;
    EXPECT_EQ(ioctl<CreateEvent>(kfd_, event), 0);
    return event.event_id;
  }
  // The event's data if it is set.
  std::optional<kfd_event_data> poll_event(std::uint32_t id) {
    kfd_event_data data{};
    data.event_id = id;
    kfd_ioctl_wait_events_args wait{reinterpret_cast<std::uint64_t>(&data), 1, 0, 0, 0};
    EXPECT_EQ(ioctl<WaitEvents>(kfd_, wait), 0);
    if (wait.wait_result != KFD_IOC_WAIT_RESULT_COMPLETE) return std::nullopt;
    return data;
  }
  void submit_fence(UserQueue& queue, const Memory& memory, std::uint32_t value) {
    submit(queue, {5, low(memory.va), high(memory.va), value});
  }
};

TEST_F(GpuControls, UnknownActionIsEnoent) {
  EXPECT_EQ(machine_->controls().run("dri/renderD128", "explode", {}).error(), Errno(ENOENT));
}

TEST_F(GpuControls, MemoryExceptionNamesTheAddress) {
  const std::uint32_t event = make_event(KFD_IOC_EVENT_MEMORY);
  ControlArguments arguments;
  arguments.address = 0x12345678;
  press("memory-exception", arguments);
  const auto data = poll_event(event);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->memory_exception_data.va, 0x12345000u);
  EXPECT_EQ(data->memory_exception_data.failure.NotPresent, 1u);
}

TEST_F(GpuControls, OtherClientsAreLeftAlone) {
  const std::uint32_t event = make_event(KFD_IOC_EVENT_MEMORY);
  ControlArguments arguments;
  arguments.client_id = self().client->id() + 1000;
  press("memory-exception", arguments, "kfd");
  EXPECT_FALSE(poll_event(event));
}

TEST_F(GpuControls, ResetTellsEveryProcessAndStopsItsQueues) {
  const std::uint32_t event = make_event(KFD_IOC_EVENT_HW_EXCEPTION);
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  press("reset");
  const auto data = poll_event(event);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->hw_exception_data.memory_lost, 1u);
  EXPECT_EQ(data->hw_exception_data.gpu_id, 0x1234u);
  submit_fence(queue, memory, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(memory.as<std::uint32_t>()[0]).load(), 0u);
  EXPECT_EQ(gpus_[0]->reset_count(), 1u);
  EXPECT_EQ(gpus_[0]->vram_lost_count(), 0u);
  EXPECT_EQ(destroy(queue), 0);
}

TEST_F(GpuControls, ResetWithVramLossWipesVramOnly) {
  const Memory vram = make_memory(kPage, kVram), gtt = make_memory(kPage);
  vram.as<std::uint32_t>()[0] = gtt.as<std::uint32_t>()[0] = 7;
  ControlArguments arguments;
  arguments.vram_lost = true;
  press("reset", arguments);
  EXPECT_EQ(vram.as<std::uint32_t>()[0], 0u);
  EXPECT_EQ(gtt.as<std::uint32_t>()[0], 7u);
  EXPECT_EQ(gpus_[0]->vram_lost_count(), 1u);
}

TEST_F(GpuControls, EvictedQueuesComeBack) {
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  press("evict");
  press("invalidate-userptr");
  submit_fence(queue, memory, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(memory.as<std::uint32_t>()[0]).load(), 0u);
  auto later = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  submit(later, {5, low(memory.va + 8), high(memory.va), 2});
  clock_->advance(2'000'000'000);
  wait_done(queue);
  wait_done(later);
  EXPECT_EQ(memory.as<std::uint32_t>()[0], 1u);
  EXPECT_EQ(memory.as<std::uint32_t>()[2], 2u);
}

TEST_F(GpuControls, VramCanBeTakenAwayAndGivenBack) {
  const std::uint64_t before = available(kfd_);
  ControlArguments arguments;
  arguments.number = 8 * kMiB;
  press("exhaust-vram", arguments);
  EXPECT_EQ(available(kfd_), 8 * kMiB);
  EXPECT_EQ(alloc(kfd_, kVram, 9 * kMiB, next_va_).result, -ENOMEM);
  const auto memory = alloc(kfd_, kVram, 8 * kMiB, next_va_);
  EXPECT_EQ(memory.result, 0);
  EXPECT_EQ(free(kfd_, memory.handle), 0);
  arguments.number = Limits::kNone;
  press("exhaust-vram", arguments);
  EXPECT_EQ(available(kfd_), before);
}

TEST_F(GpuControls, UnpluggedGpuAnswersEnodevOnItsRenderNode) {
  make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  press("unplug");
  EXPECT_EQ(raw_ioctl(render_files_[0], 0xc0406400, kBadPointer), -ENODEV);
}

}  // namespace
}  // namespace understudy::kfd::testing
