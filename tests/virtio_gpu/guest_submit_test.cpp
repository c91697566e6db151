// EXECBUFFER: both orders, fences, rings, syncobjs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "sim/drm/syncobj.h"
#include "tests/virtio_gpu/guest_machine.h"

namespace understudy::virtio_gpu::test {
namespace {

constexpr std::uint32_t kIn = guest_abi::VIRTGPU_EXECBUF_FENCE_FD_IN;
constexpr std::uint32_t kOut = guest_abi::VIRTGPU_EXECBUF_FENCE_FD_OUT;
constexpr std::uint32_t kRing = guest_abi::VIRTGPU_EXECBUF_RING_IDX;

GuestOptions with_kernel(const std::string& kernel) {
  return {.request = "gl,blob,context_init", .kernel = kernel, .device = "series"};
}

struct SubmitGuest : GuestMachine {
  explicit SubmitGuest(const std::string& kernel = "6.12") : GuestMachine(with_kernel(kernel)) {}

  guest_abi::drm_virtgpu_execbuffer args(std::uint32_t flags = 0) {
    guest_abi::drm_virtgpu_execbuffer request{};
    request.flags = flags;
    request.size = sizeof command;
    request.command = reinterpret_cast<std::uint64_t>(command);
    request.fence_fd = -77;
    return request;
  }
  int exec(guest_abi::drm_virtgpu_execbuffer& request) { return ioctl<guest_abi::Execbuffer>(request); }
  int exec(guest_abi::drm_virtgpu_execbuffer&& request) { return exec(request); }
  std::uint32_t create_syncobj(bool signalled = false) {
    uapi::drm::drm_syncobj_create create{0, signalled ? 1u : 0u};
    EXPECT_EQ(ioctl<uapi::drm::SyncobjCreate>(create), 0);
    return create.handle;
  }
  bool has_fence(std::uint32_t handle) {
    return static_cast<drm::DrmFile&>(*file).syncobjs().find(handle)->fence_at(0) != nullptr;
  }

  std::uint32_t command[4] = {};
};

class LosesAnswers : public FaultHook {
 public:
  bool lose = true;
  FaultDecision before(Call&) override { return {}; }
  Outcome after(Call&, Outcome outcome, std::size_t*) override { return outcome; }
  void replied(const Call&) override {}
  PointDecision at(FaultPoint, std::string_view, const Client*) override {
    return lose ? PointDecision::kDrop : PointDecision::kPass;
  }
};

class BothOrders : public testing::TestWithParam<const char*> {
 protected:
  SubmitGuest guest{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Kernels, BothOrders, testing::Values("6.1", "6.12"),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

TEST_P(BothOrders, WithoutThirdDimensionItIsEnosys) {
  GuestMachine flat({.request = "2d", .kernel = GetParam()});
  guest_abi::drm_virtgpu_execbuffer args{};
  args.flags = 0xffff;
  EXPECT_EQ(flat.ioctl<guest_abi::Execbuffer>(args), -ENOSYS);
}

TEST_P(BothOrders, FlagsAndRingAreChecked) {
  EXPECT_EQ(guest.exec(guest.args(8)), -EINVAL);
  EXPECT_EQ(guest.exec(guest.args(kRing)), -EINVAL) << "no rings without CONTEXT_INIT";
  EXPECT_EQ(guest.live(ObjectKind::kContext), 0u) << "checked before a context is made";
  ASSERT_EQ(guest.context_init({{2, 4}}), 0);
  auto args = guest.args(kRing);
  args.ring_idx = 4;
  EXPECT_EQ(guest.exec(args), -EINVAL);
  args.ring_idx = 3;
  EXPECT_EQ(guest.exec(args), 0);
}

TEST_P(BothOrders, NothingToDoIsDone) {
  auto args = guest.args();
  args.size = 0;
  args.command = 8;
  EXPECT_EQ(guest.exec(args), 0);
  args = guest.args();
  args.size = 3;
  EXPECT_EQ(guest.exec(args), 0) << "the kernel does not look into it";
  EXPECT_EQ(guest.gpu->fences().pending_count(), 0u);
}

TEST_P(BothOrders, BadPointersAndHandlesAreRefused) {
  auto args = guest.args();
  args.command = 8;
  EXPECT_EQ(guest.exec(args), -EFAULT);
  args = guest.args();
  args.num_bo_handles = 1;
  args.bo_handles = 8;
  EXPECT_EQ(guest.exec(args), -EFAULT);
  const std::uint32_t unknown = kNoSuchHandle;
  args.bo_handles = reinterpret_cast<std::uint64_t>(&unknown);
  args.command = 8;
  EXPECT_EQ(guest.exec(args), -ENOENT) << "handles before the command";
  args.num_bo_handles = 0xffffffff;
  EXPECT_EQ(guest.exec(args), -ENOMEM);
  args = guest.args();
  args.size = 0xffffffff;
  EXPECT_EQ(guest.exec(args), -ENOMEM);
}

TEST_P(BothOrders, TheSameBufferTwiceIsEalready) {
  const std::uint32_t handle = guest.create_resource();
  const std::uint32_t handles[] = {handle, handle};
  auto args = guest.args();
  args.bo_handles = reinterpret_cast<std::uint64_t>(handles);
  args.num_bo_handles = 2;
  EXPECT_EQ(guest.exec(args), -EALREADY);
  args.num_bo_handles = 1;
  EXPECT_EQ(guest.exec(args), 0);
  EXPECT_EQ(guest.wait(handle), 0);
}

TEST_P(BothOrders, OutFenceIsAReadableDescriptor) {
  auto args = guest.args(kOut);
  ASSERT_EQ(guest.exec(args), 0);
  ASSERT_GE(args.fence_fd, 0);
  pollfd poll{args.fence_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 5000), 1);
  EXPECT_EQ(poll.revents & POLLIN, POLLIN);
  ::close(args.fence_fd);
}

TEST_P(BothOrders, FailureLeavesTheFenceFieldAlone) {
  auto args = guest.args(kOut);
  args.command = 8;
  EXPECT_EQ(guest.exec(args), -EFAULT);
  EXPECT_EQ(args.fence_fd, -77);
}

TEST_P(BothOrders, GarbageStreamStillSignalsItsFence) {
  guest.command[0] = 0xffffffff;
  auto args = guest.args(kOut);
  ASSERT_EQ(guest.exec(args), 0);
  pollfd poll{args.fence_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 5000), 1);
  ::close(args.fence_fd);
  EXPECT_EQ(guest.exec(guest.args()), 0) << "the context stays usable";
}

TEST_P(BothOrders, InFenceMustBeASyncFile) {
  auto args = guest.args(kIn);
  args.fence_fd = -1;
  EXPECT_EQ(guest.exec(args), -EINVAL);
  args.fence_fd = ::open("/dev/null", O_RDWR);
  EXPECT_EQ(guest.exec(args), -EINVAL);
  ::close(args.fence_fd);
}

TEST_P(BothOrders, InFenceOfAnotherRingIsWaitedForAndOfTheSameIsNot) {
  ASSERT_EQ(guest.context_init({{2, 4}}), 0);
  const auto hook = std::make_shared<LosesAnswers>();
  guest.machine.hooks().install(hook);
  auto out = guest.args(kOut | kRing);
  out.ring_idx = 1;
  ASSERT_EQ(guest.exec(out), 0);

  auto same = guest.args(kIn | kRing);
  same.ring_idx = 1;
  same.fence_fd = out.fence_fd;
  EXPECT_EQ(guest.exec(same), 0);

  auto other = guest.args(kIn | kRing);
  other.ring_idx = 2;
  other.fence_fd = out.fence_fd;
  auto call =
      guest.client.start(guest.file, guest_abi::Execbuffer::kCmd, reinterpret_cast<std::uint64_t>(&other));
  EXPECT_FALSE(call->answered());
  call->cancel();
  EXPECT_EQ(call->wait(), -EINTR);
  ::close(out.fence_fd);
}

TEST(SubmitOrder, OldKernelsLookAtTheFenceFirst) {
  for (const char* kernel : {"6.1", "6.12"}) {
    SubmitGuest guest(kernel);
    auto args = guest.args(kIn);
    args.fence_fd = -1;
    args.command = 8;
    EXPECT_EQ(guest.exec(args), std::string_view(kernel) == "6.1" ? -EINVAL : -EFAULT);
  }
}

TEST(Events, PolledRingSendsOneWhenItsFenceSignals) {
  SubmitGuest guest;
  ASSERT_EQ(guest.context_init({{2, 4}, {3, 2}}), 0);
  auto args = guest.args(kRing);
  args.ring_idx = 0;
  ASSERT_EQ(guest.exec(args), 0);
  EXPECT_FALSE(guest.file->readable());
  args.ring_idx = 1;
  ASSERT_EQ(guest.exec(args), 0);
  ASSERT_TRUE(guest.file->readable());
  const auto event = guest.file->take_read(64);
  ASSERT_TRUE(event);
  std::uint32_t words[2] = {};
  ASSERT_EQ(event.value().size(), sizeof words);
  std::memcpy(words, event.value().data(), sizeof words);
  EXPECT_EQ(words[0], 0x90000000u);
  EXPECT_EQ(words[1], 8u);
}

TEST(Syncobjs, OutOnesGetTheFenceInOnesAreWaitedForAndReset) {
  SubmitGuest guest;
  const std::uint32_t first = guest.create_syncobj();
  const std::uint32_t second = guest.create_syncobj(true);
  guest_abi::drm_virtgpu_execbuffer_syncobj out[] = {{first, 0, 0}};
  guest_abi::drm_virtgpu_execbuffer_syncobj in[] = {{second, guest_abi::VIRTGPU_EXECBUF_SYNCOBJ_RESET, 0}};
  auto args = guest.args();
  args.syncobj_stride = sizeof out[0];
  args.out_syncobjs = reinterpret_cast<std::uint64_t>(out);
  args.num_out_syncobjs = 1;
  args.in_syncobjs = reinterpret_cast<std::uint64_t>(in);
  args.num_in_syncobjs = 1;
  ASSERT_EQ(guest.exec(args), 0);
  EXPECT_TRUE(guest.has_fence(first));
  EXPECT_FALSE(guest.has_fence(second));
}

TEST(Syncobjs, ErrorsAreThoseOfTheList) {
  SubmitGuest guest;
  const std::uint32_t empty = guest.create_syncobj();
  struct Row {
    bool out;
    guest_abi::drm_virtgpu_execbuffer_syncobj entry;
    int result;
  };
  const Row rows[] = {
      {true, {kNoSuchHandle, 0, 0}, -EINVAL},  {true, {empty, 1, 0}, -EINVAL},
      {false, {kNoSuchHandle, 0, 0}, -ENOENT}, {false, {empty, 2, 0}, -EINVAL},
      {false, {empty, 0, 0}, -EINVAL},
  };
  for (const Row& row : rows) {
    auto args = guest.args();
    args.syncobj_stride = sizeof row.entry;
    (row.out ? args.out_syncobjs : args.in_syncobjs) = reinterpret_cast<std::uint64_t>(&row.entry);
    (row.out ? args.num_out_syncobjs : args.num_in_syncobjs) = 1;
    EXPECT_EQ(guest.exec(args), row.result);
  }
  auto args = guest.args();
  args.syncobj_stride = 16;
  args.num_in_syncobjs = 1;
  args.in_syncobjs = 8;
  EXPECT_EQ(guest.exec(args), -EFAULT);
  args.syncobj_stride = 0;
  EXPECT_EQ(guest.exec(args), -ENOENT) << "nothing is read, so the handle is 0";
}

TEST(Syncobjs, TimelinePointsAreAdded) {
  SubmitGuest guest;
  const std::uint32_t timeline = guest.create_syncobj();
  guest_abi::drm_virtgpu_execbuffer_syncobj out[] = {{timeline, 0, 5}};
  auto args = guest.args();
  args.syncobj_stride = sizeof out[0];
  args.out_syncobjs = reinterpret_cast<std::uint64_t>(out);
  args.num_out_syncobjs = 1;
  ASSERT_EQ(guest.exec(args), 0);
  EXPECT_EQ(static_cast<drm::DrmFile&>(*guest.file).syncobjs().find(timeline)->query(true), 5u);
}

TEST(Syncobjs, OldStructHasNone) {
  SubmitGuest guest;
  variants::linux_6_1::drm_virtgpu_execbuffer args{};
  args.size = sizeof guest.command;
  args.command = reinterpret_cast<std::uint64_t>(guest.command);
  EXPECT_EQ(guest.ioctl<variants::linux_6_1::Execbuffer>(args), 0);
}

TEST(FullQueue, CommandsWaitInsteadOfTheCaller) {
  SubmitGuest guest;
  const auto hook = std::make_shared<LosesAnswers>();
  guest.machine.hooks().install(hook);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(guest.exec(guest.args()), 0);
  EXPECT_GE(guest.gpu->control().pending_count(), 300u);
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
