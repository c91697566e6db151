#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kVa = 0x7000'0000'0000;
constexpr std::uint32_t kNoSuchEvent = 4000;
constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
constexpr std::uint32_t kForever = 0xffffffff;

class EventTest : public KfdTest {
 protected:
  void SetUp() override {
    KfdTest::SetUp();
    kfd_ = open_ready();
  }
  struct Created {
    int result = 0;
    kfd_ioctl_create_event_args args{};
  };
  Created create(std::uint32_t type, bool auto_reset = true, std::uint64_t page = 0) {
    Created created;
    created.args.event_type = type;
    created.args.auto_reset = auto_reset;
    created.args.event_page_offset = page;
    created.result = ioctl<CreateEvent>(kfd_, created.args);
    return created;
  }
  std::uint32_t signal_event(bool auto_reset = true) {
    return create(KFD_IOC_EVENT_SIGNAL, auto_reset).args.event_id;
  }
  std::uint64_t page_of(std::uint64_t size = 32768) { return alloc(kfd_, kGtt, size, kVa).handle; }
  int set(std::uint32_t id) {
    kfd_ioctl_set_event_args args{id};
    return ioctl<SetEvent>(kfd_, args);
  }
  int reset(std::uint32_t id) {
    kfd_ioctl_reset_event_args args{id};
    return ioctl<ResetEvent>(kfd_, args);
  }
  int destroy(std::uint32_t id) {
    kfd_ioctl_destroy_event_args args{id};
    return ioctl<DestroyEvent>(kfd_, args);
  }

  // A wait in flight; its structs live as long as it does.
  struct Waiting {
    std::vector<kfd_event_data> events;
    kfd_ioctl_wait_events_args args{};
    std::shared_ptr<TestCall> call;
    std::future<int> answer;
    bool answered() const { return call->finished(); }
    std::uint32_t result() { return answer.get() == 0 ? args.wait_result : 99; }
  };
  std::unique_ptr<Waiting> wait(std::vector<std::uint32_t> ids, std::uint32_t timeout_ms, bool all = false,
                                std::uint64_t age = 0) {
    auto waiting = std::make_unique<Waiting>();
    for (const std::uint32_t id : ids) {
      kfd_event_data& data = waiting->events.emplace_back();
      data.event_id = id;
      data.signal_event_data.last_event_age = age;
    }
    waiting->args.events_ptr = reinterpret_cast<std::uint64_t>(waiting->events.data());
    waiting->args.num_events = static_cast<std::uint32_t>(ids.size());
    waiting->args.wait_for_all = all;
    waiting->args.timeout = timeout_ms;
    std::tie(waiting->call, waiting->answer) = start<WaitEvents>(kfd_, waiting->args, self());
    return waiting;
  }

  std::shared_ptr<KfdFile> kfd_;
};

class CreateEvents : public EventTest {};
class SignalPage : public EventTest {};
class WaitForEvents : public EventTest {};

TEST_F(CreateEvents, SignalIdsStartAtOneAndAreSlots) {
  const auto created = create(KFD_IOC_EVENT_SIGNAL, true, page_of());
  EXPECT_EQ(created.result, 0);
  EXPECT_EQ(created.args.event_id, 1u);
  EXPECT_EQ(created.args.event_trigger_data, 1u);
  EXPECT_EQ(created.args.event_slot_index, 1u);
  EXPECT_EQ(created.args.event_page_offset, std::uint64_t{2} << 62);
  EXPECT_EQ(create(KFD_IOC_EVENT_DEBUG_EVENT).args.event_id, 2u);
}

TEST_F(CreateEvents, OtherIdsStartHighAndTakeAnyType) {
  const auto created = create(KFD_IOC_EVENT_MEMORY);
  EXPECT_EQ(created.args.event_id, 0x40000000u);
  EXPECT_EQ(created.args.event_page_offset, 0u);
  EXPECT_EQ(created.args.event_slot_index, 0u);
  EXPECT_EQ(create(12345).result, 0);
}

TEST_F(CreateEvents, LowestFreeIdIsReused) {
  create(KFD_IOC_EVENT_SIGNAL, true, page_of());
  signal_event();
  signal_event();
  EXPECT_EQ(destroy(2), 0);
  EXPECT_EQ(signal_event(), 2u);
}

TEST_F(CreateEvents, SlotsRunOutWithEnospc) {
  create(KFD_IOC_EVENT_SIGNAL, true, page_of());
  for (int event = 2; event < 4096; ++event) ASSERT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, 0);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, -ENOSPC);
  EXPECT_EQ(create(KFD_IOC_EVENT_MEMORY).result, 0);
}

TEST_F(CreateEvents, LimitOfTheMachineIsEnospcToo) {
  kfd_.reset();
  render_files_.clear();
  render_fds_.clear();
  last_call_.reset();
  Settings settings;
  settings.limits.events = 2;
  build({TestGpu{}}, settings);
  kfd_ = open_ready();
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, page_of()).result, 0);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, 0);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, -ENOSPC);
}

TEST_F(SignalPage, IsFilledWithOnesAndCannotBeFreed) {
  const auto memory = alloc(kfd_, kGtt, 32768, kVa);
  EXPECT_EQ(create(KFD_IOC_EVENT_MEMORY, false, memory.handle).result, 0);
  const auto target = mmap(render_files_[0], memory.mmap_offset, 32768, self());
  const auto page = Mapping::of_fd(target.value().fd.get(), 32768).value();
  EXPECT_EQ(page.data()[0], std::byte{0xff});
  EXPECT_EQ(page.data()[32767], std::byte{0xff});
  EXPECT_EQ(free(kfd_, memory.handle), -EPERM);
}

TEST_F(SignalPage, SecondOneIsEinval) {
  const std::uint64_t page = page_of();
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, page).result, 0);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, page).result, -EINVAL);
}

TEST_F(SignalPage, BadHandlesAreEinval) {
  const Pages pages(32768);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, std::uint64_t{kNoSuchGpu} << 32).result, -EINVAL);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, 0x1234'0000'0063).result, -EINVAL);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, page_of(16384)).result, -EINVAL);
  const auto userptr = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 32768, kVa, pages.address());
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, userptr.handle).result, -EINVAL);
}

TEST_F(SignalPage, OfUnboundGpuIsEnodev) {
  machine_->clients().retire(self().client);
  kfd_ = open_kfd();
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL, true, 0x1234'0000'0000).result, -ENODEV);
}

TEST_F(SignalPage, OlderKernelsMakeOneOfTheirOwn) {
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, 0);
  EXPECT_FALSE(mmap(kfd_, std::uint64_t{2} << 62, 65536, self()));
  EXPECT_TRUE(mmap(kfd_, std::uint64_t{2} << 62, 32768, self()));
}

TEST_F(SignalPage, KernelsOfSevenXHaveNone) {
  kfd_.reset();
  render_files_.clear();
  render_fds_.clear();
  last_call_.reset();
  Settings settings;
  settings.flavour.kfd_minor = 23;
  build({TestGpu{}}, settings);
  kfd_ = open_ready();
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, -ENOMEM);
}

TEST_F(SignalPage, UnmappedKernelPageHas256Slots) {
  for (int event = 1; event < 256; ++event) ASSERT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, 0);
  EXPECT_EQ(create(KFD_IOC_EVENT_SIGNAL).result, -ENOSPC);
}

TEST_F(EventTest, UnknownOrWrongTypeIsEinval) {
  create(KFD_IOC_EVENT_SIGNAL, true, page_of());
  const std::uint32_t memory = create(KFD_IOC_EVENT_MEMORY).args.event_id;
  for (const std::uint32_t id : {0u, kNoSuchEvent, memory}) {
    EXPECT_EQ(set(id), -EINVAL);
    EXPECT_EQ(reset(id), -EINVAL);
  }
  EXPECT_EQ(destroy(0), -EINVAL);
  EXPECT_EQ(destroy(kNoSuchEvent), -EINVAL);
  EXPECT_EQ(destroy(memory), 0);
  EXPECT_EQ(destroy(memory), -EINVAL);
}

TEST_F(WaitForEvents, SetManualEventAnswersEveryWaitUntilReset) {
  const std::uint32_t id = signal_event(/*auto_reset=*/false);
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(reset(id), 0);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, AutoResetEventAnswersOneWait) {
  const std::uint32_t id = signal_event();
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, SettingAnAutoResetEventWakesAllAndStaysUnsignalled) {
  const std::uint32_t id = signal_event();
  const auto first = wait({id}, kForever), second = wait({id}, kForever);
  EXPECT_FALSE(first->answered());
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(first->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(second->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, AllWaitsForEach) {
  const std::uint32_t a = signal_event(), b = signal_event();
  const auto waiting = wait({a, b}, kForever, /*all=*/true);
  EXPECT_EQ(set(a), 0);
  EXPECT_FALSE(waiting->answered());
  EXPECT_EQ(set(b), 0);
  EXPECT_EQ(waiting->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(WaitForEvents, NothingToWaitForIsComplete) {
  EXPECT_EQ(wait({}, kForever)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(wait({}, kForever, /*all=*/true)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(WaitForEvents, TimeoutIsSuccessWithAResult) {
  const std::uint32_t id = signal_event();
  const auto waiting = wait({id}, 1000);
  clock_->advance(999'000'000);
  EXPECT_FALSE(waiting->answered());
  clock_->advance(1'000'000);
  EXPECT_EQ(waiting->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(WaitForEvents, LargeTimeoutsAreFinite) {
  const auto waiting = wait({signal_event()}, 0xfffffffe);
  clock_->advance(std::uint64_t{0x7fffffff} * 1'000'000);
  EXPECT_EQ(waiting->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, ArgumentErrors) {
  const std::uint32_t id = signal_event(/*auto_reset=*/false);
  EXPECT_EQ(wait({kNoSuchEvent}, 0)->answer.get(), -EINVAL);
  kfd_ioctl_wait_events_args args{};
  args.num_events = 0x7fffffff;
  args.events_ptr = kBadPointer;
  EXPECT_EQ(ioctl<WaitEvents>(kfd_, args), -ENOMEM);
  args.num_events = 4097;
  EXPECT_EQ(ioctl<WaitEvents>(kfd_, args), -EFAULT);
  args.num_events = 1;
  args.events_ptr = kBadPointer;
  EXPECT_EQ(ioctl<WaitEvents>(kfd_, args), -EFAULT);
  EXPECT_EQ(args.wait_result, KFD_IOC_WAIT_RESULT_FAIL);
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id, kNoSuchEvent}, 0)->answer.get(), -EINVAL);
}

TEST_F(WaitForEvents, BadLaterEntryHasConsumedTheEarlierOnes) {
  const std::uint32_t id = signal_event();
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({kNoSuchEvent, id}, 0)->answer.get(), -EINVAL);
  EXPECT_EQ(wait({id, kNoSuchEvent}, 0)->answer.get(), -EINVAL);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, SameAutoResetEventTwiceNeverCompletesForAll) {
  const std::uint32_t id = signal_event();
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id, id}, 0, /*all=*/true)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_F(WaitForEvents, ArrayThatEndsInMissingPagesIsEfault) {
  const Pages pages(2 * kPage);
  ::munmap(pages.as<char>() + kPage, kPage);
  auto* const last = reinterpret_cast<kfd_event_data*>(pages.as<char>() + kPage) - 1;
  last->event_id = signal_event();
  kfd_ioctl_wait_events_args args{};
  args.num_events = 2;
  args.events_ptr = reinterpret_cast<std::uint64_t>(last);
  EXPECT_EQ(ioctl<WaitEvents>(kfd_, args), -EFAULT);
  args.num_events = 1;
  EXPECT_EQ(ioctl<WaitEvents>(kfd_, args), 0);
}

TEST_F(WaitForEvents, DestroyedEventEndsTheWaitWithEio) {
  const std::uint32_t id = signal_event();
  const auto waiting = wait({id}, kForever);
  EXPECT_EQ(destroy(id), 0);
  EXPECT_EQ(waiting->answer.get(), -EIO);
  EXPECT_EQ(waiting->args.wait_result, KFD_IOC_WAIT_RESULT_FAIL);
}

TEST_F(WaitForEvents, SignalInterruptsAndLeavesTheRemainingTime) {
  const auto waiting = wait({signal_event()}, 1000);
  clock_->advance(400'000'000);
  waiting->call->cancel();
  EXPECT_EQ(waiting->answer.get(), -EINTR);
  EXPECT_EQ(waiting->args.timeout, 600u);
  EXPECT_EQ(waiting->args.wait_result, KFD_IOC_WAIT_RESULT_FAIL);
}

TEST_F(WaitForEvents, SignalGivesConsumedAutoResetsBack) {
  const std::uint32_t a = signal_event(), b = signal_event();
  EXPECT_EQ(set(a), 0);
  const auto waiting = wait({a, b}, kForever, /*all=*/true);
  EXPECT_EQ(wait({a}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
  waiting->call->cancel();
  EXPECT_EQ(waiting->answer.get(), -EINTR);
  EXPECT_EQ(waiting->args.timeout, kForever);
  EXPECT_EQ(wait({a}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(WaitForEvents, EndOfTheClientEndsItsWaits) {
  const auto waiting = wait({signal_event()}, kForever);
  machine_->clients().retire(self().client);
  EXPECT_EQ(waiting->answer.get(), -EINTR);
}

TEST_F(WaitForEvents, AgeBehindTheEventsIsAnsweredAtOnceWithTheNewAge) {
  const std::uint32_t id = signal_event();
  EXPECT_EQ(wait({id}, 0, false, /*age=*/1)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
  EXPECT_EQ(set(id), 0);
  EXPECT_EQ(wait({id}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  const auto late = wait({id}, 0, false, /*age=*/1);
  EXPECT_EQ(late->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(late->events[0].signal_event_data.last_event_age, 2u);
}

TEST_F(WaitForEvents, MemoryExceptionBringsItsData) {
  const std::uint32_t id = create(KFD_IOC_EVENT_MEMORY).args.event_id;
  const auto waiting = wait({id}, kForever);
  kfd_hsa_memory_exception_data data{};
  data.failure.NotPresent = 1;
  data.va = 0xdead'f000;
  data.gpu_id = 0x1234;
  EXPECT_EQ(kfd_->process().events().raise_memory_exception(data), 1u);
  EXPECT_EQ(waiting->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(waiting->events[0].memory_exception_data.va, 0xdead'f000u);
  EXPECT_EQ(waiting->events[0].memory_exception_data.failure.NotPresent, 1u);
}

TEST_F(WaitForEvents, HardwareExceptionBringsItsData) {
  const std::uint32_t id = create(KFD_IOC_EVENT_HW_EXCEPTION).args.event_id;
  const auto waiting = wait({id}, kForever);
  kfd_hsa_hw_exception_data data{};
  data.memory_lost = 1;
  data.gpu_id = 0x1234;
  EXPECT_EQ(kfd_->process().events().raise_hw_exception(data), 1u);
  EXPECT_EQ(waiting->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
  EXPECT_EQ(waiting->events[0].hw_exception_data.memory_lost, 1u);
}

class Interrupts : public EventTest {
 protected:
  void SetUp() override {
    EventTest::SetUp();
    const auto memory = alloc(kfd_, kGtt, 32768, kVa);
    create(KFD_IOC_EVENT_SIGNAL, true, memory.handle);
    const auto target = mmap(render_files_[0], memory.mmap_offset, 32768, self());
    page_ = Mapping::of_fd(target.value().fd.get(), 32768).value();
  }
  std::uint64_t& slot(std::uint32_t id) { return reinterpret_cast<std::uint64_t*>(page_.data())[id]; }
  Mapping page_;
};

TEST_F(Interrupts, AcknowledgesTheSlotAndSetsTheEvent) {
  slot(1) = 1;
  kfd_->process().events().interrupt(1);
  EXPECT_EQ(slot(1), ~std::uint64_t{0});
  EXPECT_EQ(wait({1}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(Interrupts, WrongIdFindsWhateverIsSignalled) {
  const std::uint32_t other = signal_event();
  slot(other) = other;
  kfd_->process().events().interrupt(kNoSuchEvent);
  EXPECT_EQ(slot(other), ~std::uint64_t{0});
  EXPECT_EQ(wait({other}, 0)->result(), KFD_IOC_WAIT_RESULT_COMPLETE);
}

TEST_F(Interrupts, UntouchedSlotIsNoSignal) {
  kfd_->process().events().interrupt(1);
  EXPECT_EQ(wait({1}, 0)->result(), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

}  // namespace
}  // namespace understudy::kfd::testing
