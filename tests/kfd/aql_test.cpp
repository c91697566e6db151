#include "sim/kfd/engine/plugin_host.h"
#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kBarrierAnd = 3, kBarrierOr = 5, kDispatch = 2, kAgentDispatch = 4;
constexpr std::uint64_t kVendorPm4 = 1 << 16, kVendorBarrierValue = 2 << 16;

class AqlTest : public QueueTest {
 protected:
  void SetUp() override {
    QueueTest::SetUp();
    set_up_aql();
  }
  void set_up_aql() {
    signals_ = make_memory(kPage);
    queue_ = prepare(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    fill_with_invalid(queue_);
    create(queue_);
    ASSERT_EQ(queue_.result, 0);
  }
  void rebuild(Settings settings) {
    kfd_.reset();
    render_files_.clear();
    render_fds_.clear();
    last_call_.reset();
    build({TestGpu{}}, settings);
    kfd_ = open_ready();
    set_up_aql();
  }
  // amd_signal_t number `index`: address and value.
  std::uint64_t signal(unsigned index) const { return signals_.va + index * 64; }
  std::int64_t& value(unsigned index) const { return signals_.as<std::int64_t>()[index * 8 + 1]; }
  void wait_for_value(unsigned index, std::int64_t expected) {
    eventually([&] { return std::atomic_ref(value(index)).load() == expected; });
  }

  Memory signals_;
  UserQueue queue_;
};

TEST_F(AqlTest, BarrierWithoutDependenciesCompletesItsSignal) {
  value(0) = 1;
  submit_aql(queue_, {kBarrierAnd, 0, 0, 0, 0, 0, 0, signal(0)});
  wait_for_value(0, 0);
  wait_done(queue_);
  // The slot is free again.
  EXPECT_EQ(queue_.ring.as<std::uint16_t>()[0], 1);
}

TEST_F(AqlTest, BarrierAndWaitsForEverySignal) {
  value(0) = 1;
  value(1) = 1;
  value(2) = 1;
  submit_aql(queue_, {kBarrierAnd, signal(0), 0, signal(1), 0, 0, 0, signal(2)});
  std::atomic_ref(value(0)).store(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(value(2)).load(), 1);
  std::atomic_ref(value(1)).store(0);
  wait_for_value(2, 0);
}

TEST_F(AqlTest, BarrierOrTakesTheFirst) {
  value(0) = 1;
  value(1) = 1;
  value(2) = 1;
  submit_aql(queue_, {kBarrierOr, signal(0), signal(1), 0, 0, 0, 0, signal(2)});
  std::atomic_ref(value(1)).store(0);
  wait_for_value(2, 0);
  submit_aql(queue_, {kBarrierOr, 0, 0, 0, 0, 0, 0, 0});
  wait_done(queue_);
}

TEST_F(AqlTest, QueuesWaitForEachOther) {
  auto other = prepare(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
  fill_with_invalid(other);
  create(other);
  value(0) = value(1) = value(2) = 1;
  submit_aql(queue_, {kBarrierAnd, signal(0), 0, 0, 0, 0, 0, signal(1)});
  submit_aql(other, {kBarrierAnd, 0, 0, 0, 0, 0, 0, signal(0)});
  submit_aql(other, {kBarrierAnd, signal(1), 0, 0, 0, 0, 0, signal(2)});
  wait_for_value(2, 0);
}

TEST_F(AqlTest, BarrierValueComparesMasked) {
  struct Case {
    std::int64_t value, reference, mask;
    std::uint64_t condition;
  };
  for (const Case& test :
       {Case{0x15, 0x5, 0xf, 0}, Case{1, 2, -1, 1}, Case{-5, 0, -1, 2}, Case{7, 7, -1, 3}}) {
    value(0) = test.value;
    value(1) = 1;
    submit_aql(queue_, {kVendorBarrierValue, signal(0), static_cast<std::uint64_t>(test.reference),
                        static_cast<std::uint64_t>(test.mask), test.condition, 0, 0, signal(1)});
    wait_for_value(1, 0);
  }
}

TEST_F(AqlTest, PacketsOutOfOrderAreTakenInOrder) {
  value(0) = value(1) = 1;
  auto* const slots = queue_.ring.as<std::uint64_t>();
  std::atomic_ref(queue_.write_pointer()).store(2);
  slots[8 + 7] = signal(1);
  std::atomic_ref(slots[8]).store(kBarrierAnd);
  queue_.ring_doorbell(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(value(1)).load(), 1);
  slots[7] = signal(0);
  std::atomic_ref(slots[0]).store(kBarrierAnd);
  queue_.ring_doorbell(0);
  wait_for_value(0, 0);
  wait_for_value(1, 0);
}

TEST_F(AqlTest, RingWrapsManyTimes) {
  value(0) = 3000;
  for (int packet = 0; packet < 3000; ++packet) {
    eventually([&] { return queue_.wptr - queue_.read_pointer() < kRingBytes / 64; });
    submit_aql(queue_, {kBarrierAnd, 0, 0, 0, 0, 0, 0, signal(0)});
  }
  wait_for_value(0, 0);
}

TEST_F(AqlTest, CompletionRaisesTheSignalsEvent) {
  const Memory page = make_memory(32768);
  kfd_ioctl_create_event_args event{};
  event.event_page_offset = page.handle;
  event.auto_reset = 1;
  ASSERT_EQ(ioctl<CreateEvent>(kfd_, event), 0);
  value(0) = 1;
  signals_.as<std::uint64_t>()[2] = page.va + event.event_id * 8;
  signals_.as<std::uint32_t>()[6] = event.event_id;
  kfd_event_data data{};
  data.event_id = event.event_id;
  kfd_ioctl_wait_events_args wait{};
  wait.events_ptr = reinterpret_cast<std::uint64_t>(&data);
  wait.num_events = 1;
  wait.timeout = 0xffffffff;
  auto [call, answer] = start<WaitEvents>(kfd_, wait, self());
  submit_aql(queue_, {kBarrierAnd, 0, 0, 0, 0, 0, 0, signal(0)});
  EXPECT_EQ(answer.get(), 0);
  EXPECT_EQ(value(0), 0);
}

TEST_F(AqlTest, ProfilingWritesTimestamps) {
  queue_.pointers.as<std::uint32_t>()[180 / 4] = 1u << 3;  // AMD_QUEUE_PROPERTIES_ENABLE_PROFILING
  value(0) = 1;
  submit_aql(queue_, {kBarrierAnd, 0, 0, 0, 0, 0, 0, signal(0)});
  wait_for_value(0, 0);
  const std::uint64_t begin = signals_.as<std::uint64_t>()[4], end = signals_.as<std::uint64_t>()[5];
  EXPECT_NE(begin, 0u);
  EXPECT_LE(begin, end);
}

TEST_F(AqlTest, VendorPacketRunsAnIndirectBuffer) {
  const Memory buffer = make_memory(kPage), target = make_memory(kPage);
  // ACQUIRE_MEM of 7 dwords, then WRITE_DATA of one dword to memory.
  const std::uint32_t commands[] = {3u << 30 | 5u << 16 | 0x58u << 8,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    0,
                                    3u << 30 | 3u << 16 | 0x37u << 8,
                                    5u << 8,
                                    low(target.va),
                                    high(target.va),
                                    77};
  std::memcpy(buffer.as<char>(), commands, sizeof commands);
  const std::uint64_t size_dw = sizeof commands / 4;
  value(0) = 1;
  submit_aql(queue_, {kVendorPm4 | std::uint64_t{0xc0023f00} << 32, buffer.va,
                      size_dw | 1u << 23 | std::uint64_t{0xa} << 32, 0, 0, 0, 0, signal(0)});
  wait_for_value(0, 0);
  EXPECT_EQ(target.as<std::uint32_t>()[0], 77u);
}

// --- What cannot be executed
// --------------------------------------------------------------------------------------

class AqlErrors : public AqlTest {
 protected:
  // Signal 15 is the queue's inactive signal, signal 14 takes the driver's exception payload.
  void watch_for_errors() {
    queue_.pointers.as<std::uint64_t>()[192 / 8] = signal(15);
    payload_address_ = reinterpret_cast<std::uint64_t>(&payload_);
    auto& header = *reinterpret_cast<kfd_context_save_area_header*>(save_area_pages_.as<char>());
    header.err_payload_addr = payload_address_;
  }
  void SetUp() override {
    QueueTest::SetUp();
    signals_ = make_memory(kPage);
    queue_ = prepare(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
    // The save area is registered memory of the process, as newer runtimes have it.
    ASSERT_EQ(set_svm(kfd_, save_area_pages_.address(), kSaveAreaBytes,
                      {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED},
                       {KFD_IOCTL_SVM_ATTR_ACCESS, 0x1234}}),
              0);
    queue_.args.ctx_save_restore_address = save_area_pages_.address();
    fill_with_invalid(queue_);
    create(queue_);
    ASSERT_EQ(queue_.result, 0);
    watch_for_errors();
  }
  void expect_error(std::int64_t inactive_signal, std::uint32_t exception) {
    wait_for_value(15, inactive_signal);
    EXPECT_EQ(payload_, std::uint64_t{1} << (exception - 1));
    EXPECT_EQ(queue_.read_pointer(), 0u);
  }

  static constexpr std::uint64_t kSaveAreaBytes = 0x11000;
  const Pages save_area_pages_{kSaveAreaBytes};
  std::uint64_t payload_ = 0;
  std::uint64_t payload_address_ = 0;
};

TEST_F(AqlErrors, KernelDispatchIsAnIllegalInstruction) {
  submit_aql(queue_, {kDispatch, 0, 0, 0, 0, 0, 0, signal(0)});
  expect_error(0x4000'0000, EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION);
}

TEST_F(AqlErrors, AgentDispatchIsUnsupported) {
  submit_aql(queue_, {kAgentDispatch, 0, 0, 0, 0, 0, 0, 0});
  expect_error(0x20, EC_QUEUE_PACKET_UNSUPPORTED);
}

TEST_F(AqlErrors, UnknownTypeIsUnsupported) {
  submit_aql(queue_, {200, 0, 0, 0, 0, 0, 0, 0});
  expect_error(0x20, EC_QUEUE_PACKET_UNSUPPORTED);
}

TEST_F(AqlErrors, UnknownVendorFormatIsUnsupported) {
  submit_aql(queue_, {99 << 16, 0, 0, 0, 0, 0, 0, 0});
  expect_error(0x100, EC_QUEUE_PACKET_VENDOR_UNSUPPORTED);
}

TEST_F(AqlErrors, StoppedQueueCanBeDestroyed) {
  submit_aql(queue_, {kDispatch, 0, 0, 0, 0, 0, 0, 0});
  wait_for_value(15, 0x4000'0000);
  EXPECT_EQ(destroy(queue_), 0);
}

class AqlSkip : public AqlTest {
 protected:
  void SetUp() override {
    AqlTest::SetUp();
    Settings settings;
    settings.dispatch = DispatchPolicy::kSkip;
    rebuild(settings);
  }
};

TEST_F(AqlSkip, SkippedDispatchesCompleteAndAreReported) {
  value(0) = 2;
  submit_aql(queue_, {kDispatch, 0, 0, 0, 0, 0, 0, signal(0)});
  submit_aql(queue_, {kDispatch, 0, 0, 0, 0, 0, 0, signal(0)});
  wait_for_value(0, 0);
  EXPECT_EQ(destroy(queue_), 0);
  const auto findings = machine_->ledger().findings();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::kSkippedWork);
  EXPECT_NE(findings[0].text.find("2 kernel dispatches"), std::string::npos);
}

class AqlPlugin : public AqlErrors {
 protected:
  void SetUp() override {
    KfdTest::SetUp();
    std::string error;
    auto plugin = engine::PluginHost::load(KFD_TEST_PLUGIN, &error);
    ASSERT_TRUE(plugin) << error;
    driver_->use_plugin(std::move(plugin));
    AqlErrors::SetUp();
  }
};

// tests/kfd/test_plugin.c adds two vectors when the kernel object begins with "vadd".
TEST_F(AqlPlugin, ExecutesADispatchThroughTheDeviceAddressSpace) {
  // SetUp made a new machine below the plug-in's; load it there.
  std::string error;
  driver_->use_plugin(engine::PluginHost::load(KFD_TEST_PLUGIN, &error));
  EXPECT_EQ(destroy(queue_), 0);
  queue_ = prepare(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
  fill_with_invalid(queue_);
  create(queue_);
  ASSERT_EQ(queue_.result, 0);

  const Memory kernel = make_memory(kPage), arguments = make_memory(kPage), data = make_memory(kPage);
  std::memcpy(kernel.as<char>(), "vadd", 4);
  for (int index = 0; index < 4; ++index) {
    data.as<float>()[index] = static_cast<float>(index);
    data.as<float>()[16 + index] = 10;
  }
  const std::uint64_t kernarg[] = {data.va, data.va + 64, data.va + 128, 4};
  std::memcpy(arguments.as<char>(), kernarg, sizeof kernarg);
  value(0) = 1;
  submit_aql(queue_, {kDispatch, 0, 0, 0, kernel.va, arguments.va, 0, signal(0)});
  wait_for_value(0, 0);
  for (int index = 0; index < 4; ++index)
    EXPECT_EQ(data.as<float>()[32 + index], 10.0f + static_cast<float>(index));
}

TEST(PluginLoading, MissingObjectIsNamed) {
  std::string error;
  EXPECT_FALSE(engine::PluginHost::load("/nonexistent.so", &error));
  EXPECT_NE(error.find("/nonexistent.so"), std::string::npos);
}

TEST(PluginLoading, ObjectWithoutTheEntryIsRefused) {
  std::string error;
  EXPECT_FALSE(engine::PluginHost::load("libm.so.6", &error));
  EXPECT_NE(error.find("understudy_engine_plugin"), std::string::npos);
}

}  // namespace
}  // namespace understudy::kfd::testing
