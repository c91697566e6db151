#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kKernelAddress = 0xffff'8000'0000'0000;
constexpr std::uint32_t kNoSuchQueue = 999;

class CreateQueues : public QueueTest {
 protected:
  // CREATE_QUEUE after `change` of otherwise good arguments.
  template <typename Change>
  int create_with(std::uint32_t type, Change change) {
    UserQueue queue = prepare(type);
    change(queue.args);
    create(queue);
    return queue.result;
  }
  void use_minor(unsigned kfd_minor) {
    kfd_.reset();
    render_files_.clear();
    render_fds_.clear();
    last_call_.reset();
    Settings settings;
    settings.flavour.kfd_minor = kfd_minor;
    build({TestGpu{}}, settings);
    kfd_ = open_ready();
  }
};

constexpr std::uint32_t kSdma = KFD_IOC_QUEUE_TYPE_SDMA, kAql = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;

TEST_F(CreateQueues, PercentageAndPriorityAreChecked) {
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.queue_percentage = 101; }), -EINVAL);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.queue_priority = 16; }), -EINVAL);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.queue_percentage = 0x100; }), 0);
}

TEST_F(CreateQueues, OldKernelsTakeThePercentageWhole) {
  use_minor(11);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.queue_percentage = 0x100; }), -EINVAL);
}

TEST_F(CreateQueues, KernelAddressesAreEfault) {
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.ring_base_address = kKernelAddress; }), -EFAULT);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.read_pointer_address = kKernelAddress; }), -EFAULT);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.write_pointer_address = kKernelAddress; }), -EFAULT);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.eop_buffer_address = kKernelAddress; }), -EFAULT);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.ctx_save_restore_address = kKernelAddress; }), -EFAULT);
}

TEST_F(CreateQueues, RingSizeIsAPowerOfTwo) {
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.ring_size = 3000; }), -EINVAL);
}

TEST_F(CreateQueues, SmallRingIsClampedInTheAnswer) {
  use_minor(11);  // later kernels also look at the mapping
  UserQueue queue = prepare(kSdma);
  queue.args.ring_size = 256;
  create(queue);
  EXPECT_EQ(queue.result, 0);
  EXPECT_EQ(queue.args.ring_size, 1024u);
}

TEST_F(CreateQueues, UnknownTypeIsTheKernelsOwnErrnoBeforeTheGpuIsLookedAt) {
  EXPECT_EQ(create_with(kSdma,
                        [](auto& args) {
                          args.queue_type = 5;
                          args.gpu_id = kNoSuchGpu;
                        }),
            -524);
}

TEST_F(CreateQueues, UnknownGpuIsEinval) {
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.gpu_id = kNoSuchGpu; }), -EINVAL);
}

TEST_F(CreateQueues, WithoutAcquireVmIsEsrch) {
  machine_->clients().retire(self().client);
  kfd_ = open_kfd();
  kfd_ioctl_create_queue_args args{};
  args.gpu_id = 0x1234;
  args.queue_type = kSdma;
  EXPECT_EQ(ioctl<CreateQueue>(kfd_, args), -ESRCH);
}

TEST_F(CreateQueues, EngineBeyondTheLastIsEinval) {
  const auto by_engine = [](std::uint32_t engine) {
    return [engine](auto& args) { args.sdma_engine_id = engine; };
  };
  EXPECT_EQ(create_with(KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, by_engine(5)), -EINVAL);
  EXPECT_EQ(create_with(KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, by_engine(4)), 0);
}

TEST_F(CreateQueues, EngineCannotBeChosenBeforeMinor17) {
  use_minor(16);
  EXPECT_EQ(create_with(KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, [](auto&) {}), -524);
}

TEST_F(CreateQueues, BuffersMustBeMappedExactly) {
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.write_pointer_address = 0x1000; }), -EINVAL);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.read_pointer_address = args.ring_base_address; }),
            -EINVAL);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.ring_size /= 2; }), -EINVAL);
  EXPECT_EQ(create_with(kSdma, [](auto& args) { args.ring_base_address += kPage; }), -EINVAL);
}

TEST_F(CreateQueues, ComputeBuffersAreCheckedToo) {
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.eop_buffer_size = 2048; }), -EINVAL);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.eop_buffer_address += kPage; }), -EINVAL);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.ctl_stack_size += kPage; }), -EINVAL);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.ctx_save_restore_size -= kPage; }), -EINVAL);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.ctx_save_restore_address += kPage; }), -EINVAL);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.eop_buffer_address = 0; }), 0);
}

TEST_F(CreateQueues, KernelsBefore612LookAtNoBuffers) {
  use_minor(16);
  EXPECT_EQ(create_with(kAql, [](auto& args) { args.ctl_stack_size = 1; }), 0);
}

TEST_F(CreateQueues, SaveAreaMayBeRegisteredMemoryThatIsAlwaysMapped) {
  const Pages area(0x11000);
  const auto use_area = [&](auto& args) { args.ctx_save_restore_address = area.address(); };
  EXPECT_EQ(create_with(kAql, use_area), -EINVAL);
  ASSERT_EQ(set_svm(kfd_, area.address(), 0x11000, {{KFD_IOCTL_SVM_ATTR_ACCESS, 0x1234}}), 0);
  EXPECT_EQ(create_with(kAql, use_area), -EINVAL);
  ASSERT_EQ(set_svm(kfd_, area.address(), 0x11000,
                    {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED}}),
            0);
  EXPECT_EQ(create_with(kAql, use_area), 0);
}

TEST_F(CreateQueues, IdsAreLowestFirstAndDoorbellsDistinct) {
  auto first = make_queue(kAql), second = make_queue(kAql);
  EXPECT_EQ(first.args.queue_id, 0u);
  EXPECT_EQ(second.args.queue_id, 1u);
  EXPECT_EQ(first.args.doorbell_offset >> 62, 3u);
  EXPECT_EQ(first.args.doorbell_offset >> 46 & 0xffff, 0x1234u);
  EXPECT_NE(first.args.doorbell_offset, second.args.doorbell_offset);
  EXPECT_EQ(first.args.doorbell_offset % 8, 0u);
  EXPECT_EQ(destroy(first), 0);
  EXPECT_EQ(make_queue(kAql).args.queue_id, 0u);
}

TEST_F(CreateQueues, SdmaSlotsRunOutWithEnomem) {
  std::vector<UserQueue> queues;
  for (int index = 0; index < 16; ++index) queues.push_back(make_queue(kSdma));
  EXPECT_EQ(create_with(kSdma, [](auto&) {}), -ENOMEM);
  EXPECT_EQ(create_with(KFD_IOC_QUEUE_TYPE_SDMA_XGMI, [](auto&) {}), 0);
  EXPECT_EQ(destroy(queues[3]), 0);
  EXPECT_EQ(create_with(kSdma, [](auto&) {}), 0);
}

TEST_F(CreateQueues, LimitPerProcessAndGpuIsEnospc) {
  for (int index = 0; index < 127; ++index) make_queue(kAql);
  EXPECT_EQ(create_with(kAql, [](auto&) {}), -ENOSPC);
}

TEST_F(CreateQueues, LimitsOfTheMachine) {
  kfd_.reset();
  render_files_.clear();
  render_fds_.clear();
  last_call_.reset();
  Settings settings;
  settings.limits.queues = 3;
  settings.limits.doorbells = 2;
  build({TestGpu{}}, settings);
  kfd_ = open_ready();
  make_queue(kAql);
  make_queue(kAql);
  EXPECT_EQ(create_with(kAql, [](auto&) {}), -EBUSY);
  make_queue(kSdma);
  EXPECT_EQ(create_with(kSdma, [](auto&) {}), -ENOSPC);
}

TEST_F(CreateQueues, BuffersOfALiveQueueCannotBeUnmapped) {
  auto queue = make_queue(kSdma);
  EXPECT_EQ(unmap(kfd_, queue.ring.handle, {0x1234}).result, -EBUSY);
  EXPECT_EQ(unmap(kfd_, queue.pointers.handle, {0x1234}).result, -EBUSY);
  EXPECT_EQ(destroy(queue), 0);
  EXPECT_EQ(unmap(kfd_, queue.ring.handle, {0x1234}).result, 0);
  EXPECT_EQ(unmap(kfd_, queue.pointers.handle, {0x1234}).result, 0);
}

TEST_F(CreateQueues, FailedCreationPinsNothing) {
  UserQueue queue = prepare(kAql);
  queue.args.ctl_stack_size += kPage;
  create(queue);
  EXPECT_EQ(queue.result, -EINVAL);
  EXPECT_EQ(unmap(kfd_, queue.ring.handle, {0x1234}).result, 0);
}

TEST_F(CreateQueues, ManyTimesLeavesNothingBehind) {
  UserQueue queue = prepare(kSdma);
  for (int round = 0; round < 1000; ++round) {
    create(queue);
    ASSERT_EQ(queue.result, 0);
    ASSERT_EQ(queue.args.queue_id, 0u);
    ASSERT_EQ(destroy(queue), 0);
  }
  EXPECT_EQ(machine_->ledger().live_count(ObjectKind::kQueue), 0u);
}

class QueueIoctls : public CreateQueues {};

TEST_F(QueueIoctls, DestroyOfUnknownQueueIsEinval) {
  kfd_ioctl_destroy_queue_args args{kNoSuchQueue, 0};
  EXPECT_EQ(ioctl<DestroyQueue>(kfd_, args), -EINVAL);
}

TEST_F(QueueIoctls, UpdateChecksInOrder) {
  auto queue = make_queue(kSdma);
  const auto update = [&](std::uint64_t ring, std::uint32_t size, std::uint32_t percent,
                          std::uint32_t priority, std::uint32_t id) {
    kfd_ioctl_update_queue_args args{ring, id, size, percent, priority};
    return ioctl<UpdateQueue>(kfd_, args);
  };
  const std::uint32_t id = queue.args.queue_id, size = static_cast<std::uint32_t>(kRingBytes);
  EXPECT_EQ(update(queue.ring.va, size, 101, 7, id), -EINVAL);
  EXPECT_EQ(update(queue.ring.va, size, 100, 16, id), -EINVAL);
  EXPECT_EQ(update(kKernelAddress, size, 100, 7, id), -EFAULT);
  EXPECT_EQ(update(queue.ring.va, 3000, 100, 7, id), -EINVAL);
  EXPECT_EQ(update(queue.ring.va, size, 100, 7, kNoSuchQueue), -EFAULT);
  EXPECT_EQ(update(queue.ring.va + kPage, size, 100, 7, id), -EFAULT);
  EXPECT_EQ(update(queue.ring.va, size, 50, 3, id), 0);
  EXPECT_EQ(update(0, 0, 0, 0, id), 0);
}

TEST_F(QueueIoctls, UpdateMovesThePinToTheNewRing) {
  auto queue = make_queue(kSdma);
  const Memory ring = make_memory(kRingBytes);
  kfd_ioctl_update_queue_args args{ring.va, queue.args.queue_id, static_cast<std::uint32_t>(kRingBytes), 100,
                                   7};
  EXPECT_EQ(ioctl<UpdateQueue>(kfd_, args), 0);
  EXPECT_EQ(unmap(kfd_, queue.ring.handle, {0x1234}).result, 0);
  EXPECT_EQ(unmap(kfd_, ring.handle, {0x1234}).result, -EBUSY);
}

TEST_F(QueueIoctls, CuMask) {
  auto queue = make_queue(kAql);
  std::uint32_t mask[64] = {1};
  kfd_ioctl_set_cu_mask_args args{queue.args.queue_id, 31, reinterpret_cast<std::uint64_t>(mask)};
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), -EINVAL);
  args.num_cu_mask = 0;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), -EINVAL);
  args.num_cu_mask = 32;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), 0);
  args.num_cu_mask = 2048;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), 0);
  args.cu_mask_ptr = kBadPointer;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), -EFAULT);
  args.cu_mask_ptr = reinterpret_cast<std::uint64_t>(mask);
  args.queue_id = kNoSuchQueue;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), -EFAULT);
}

TEST_F(QueueIoctls, CuMaskComesInPairsFromGfx10On) {
  kfd_.reset();
  render_files_.clear();
  render_fds_.clear();
  last_call_.reset();
  build({TestGpu{.gfx_target_version = 100300}});
  kfd_ = open_ready();
  auto queue = make_queue(kAql);
  std::uint32_t mask = 0b1101;
  kfd_ioctl_set_cu_mask_args args{queue.args.queue_id, 32, reinterpret_cast<std::uint64_t>(&mask)};
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), -EINVAL);
  mask = 0b1100;
  EXPECT_EQ(ioctl<SetCuMask>(kfd_, args), 0);
}

TEST_F(QueueIoctls, WaveStateNeedsAStoppedComputeQueue) {
  auto aql = make_queue(kAql), sdma = make_queue(kSdma);
  kfd_ioctl_get_queue_wave_state_args args{};
  args.queue_id = kNoSuchQueue;
  EXPECT_EQ(ioctl<GetQueueWaveState>(kfd_, args), -EFAULT);
  args.queue_id = sdma.args.queue_id;
  EXPECT_EQ(ioctl<GetQueueWaveState>(kfd_, args), -EINVAL);
  args.queue_id = aql.args.queue_id;
  EXPECT_EQ(ioctl<GetQueueWaveState>(kfd_, args), -EINVAL);
  kfd_ioctl_update_queue_args stop{aql.ring.va, aql.args.queue_id, static_cast<std::uint32_t>(kRingBytes), 0,
                                   7};
  ASSERT_EQ(ioctl<UpdateQueue>(kfd_, stop), 0);
  EXPECT_EQ(ioctl<GetQueueWaveState>(kfd_, args), 0);
}

TEST_F(QueueIoctls, GwsBelongsToOneQueue) {
  auto first = make_queue(kAql), second = make_queue(kAql);
  kfd_ioctl_alloc_queue_gws_args args{};
  args.queue_id = kNoSuchQueue;
  args.num_gws = 1;
  EXPECT_EQ(ioctl<AllocQueueGws>(kfd_, args), -EINVAL);
  args.queue_id = first.args.queue_id;
  args.num_gws = 0;
  EXPECT_EQ(ioctl<AllocQueueGws>(kfd_, args), -EINVAL);
  args.num_gws = 1;
  EXPECT_EQ(ioctl<AllocQueueGws>(kfd_, args), 0);
  args.queue_id = second.args.queue_id;
  EXPECT_EQ(ioctl<AllocQueueGws>(kfd_, args), -EBUSY);
  args.queue_id = first.args.queue_id;
  args.num_gws = 0;
  EXPECT_EQ(ioctl<AllocQueueGws>(kfd_, args), 0);
}

TEST_F(QueueIoctls, XnackAndRuntimeAreFixedWhileQueuesExist) {
  make_queue(kSdma);
  kfd_ioctl_set_xnack_mode_args xnack{0};
  EXPECT_EQ(ioctl<SetXnackMode>(kfd_, xnack), -EBUSY);
  kfd_ioctl_runtime_enable_args runtime{};
  runtime.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK;
  EXPECT_EQ(ioctl<RuntimeEnable>(kfd_, runtime), -EEXIST);
}

}  // namespace
}  // namespace understudy::kfd::testing
