// WAIT_CS, WAIT_FENCES, FENCE_TO_HANDLE. Expected values: amdgpu_cs.c.
#include <poll.h>

#include <thread>

#include "tests/kfd/render/submission_fixture.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

class RenderFence : public SubmissionTest {
 protected:
  RenderFence() { EXPECT_EQ(submit_ib(write_gate()), 1); }
  ~RenderFence() override { finish(); }
  void finish() {
    open_gate();
    advance_until([&] { return fence(1)->is_signalled(); });
  }
  drm_amdgpu_fence on_ring(std::uint32_t ring, std::uint64_t sequence) const {
    return {context_, AMDGPU_HW_IP_DMA, 0, ring, sequence};
  }
  std::shared_ptr<test::TestCall> start_wait(const std::vector<drm_amdgpu_fence>& fences, bool all,
                                             std::uint64_t timeout) {
    fences_ = fences;
    wait_args_ = {};
    wait_args_.in = {reinterpret_cast<std::uint64_t>(fences_.data()),
                     static_cast<std::uint32_t>(fences_.size()), all ? 1u : 0u, timeout};
    return client_.start(file_, WaitFences::kCmd, reinterpret_cast<std::uint64_t>(&wait_args_));
  }
  int wait(const std::vector<drm_amdgpu_fence>& fences, bool all, std::uint64_t timeout = 0) {
    return start_wait(fences, all, timeout)->wait();
  }
  // The output's handle, or -errno.
  int to_handle(const drm_amdgpu_fence& which, std::uint32_t what) {
    drm_amdgpu_fence_to_handle args{};
    args.in.fence = which;
    args.in.what = what;
    const int result = client_.ioctl<FenceToHandle>(file_, args);
    return result < 0 ? result : static_cast<int>(args.out.handle);
  }
  // A second job on the other DMA ring that is done.
  void run_on_ring_one() {
    drm_amdgpu_cs_chunk_ib ib{};
    ib_[64] = 0;
    ib.va_start = kIb + 64 * 4;
    ib.ib_bytes = 4;
    ib.ip_type = AMDGPU_HW_IP_DMA;
    ib.ring = 1;
    ASSERT_EQ(submit_ib(ib), 1);
    const auto done = amdgpu(file_).contexts().find(context_)->fence({AMDGPU_HW_IP_DMA, 0, 1}, 1).value();
    while (!done->is_signalled()) std::this_thread::yield();
  }

  std::vector<drm_amdgpu_fence> fences_;
  drm_amdgpu_wait_fences wait_args_{};
};

TEST_F(RenderFence, WaitCsChecksContextAndRing) {
  EXPECT_EQ(wait_cs(1, 0, AMDGPU_HW_IP_NUM), -EINVAL);
  EXPECT_EQ(wait_cs(2, 0), -EINVAL) << "not submitted yet";
  EXPECT_EQ(wait_cs(0, 0), 0) << "before the first";
  EXPECT_EQ(wait_cs(~std::uint64_t{0}, 0), 1) << "the latest";
  EXPECT_EQ(wait_cs(~std::uint64_t{0}, 0, AMDGPU_HW_IP_COMPUTE), 0) << "nothing was ever submitted there";
  const std::uint32_t context = std::exchange(context_, kNoSuchContext);
  EXPECT_EQ(wait_cs(1, 0), -EINVAL);
  context_ = context;
}

TEST_F(RenderFence, WaitCsTimesOutWithoutAnError) {
  EXPECT_EQ(wait_cs(1, 0), 1);
  EXPECT_EQ(wait_cs(1, 1), 1) << "in the past";
  finish();
  EXPECT_EQ(wait_cs(1, 0), 0);
}

TEST_F(RenderFence, WaitForAll) {
  run_on_ring_one();
  EXPECT_EQ(wait({}, true), 0);
  EXPECT_EQ(wait_args_.out.status, 1u);
  EXPECT_EQ(wait({on_ring(1, 1)}, true), 0);
  EXPECT_EQ(wait_args_.out.status, 1u);
  EXPECT_EQ(wait({on_ring(1, 1), on_ring(0, 1)}, true), 0);
  EXPECT_EQ(wait_args_.out.status, 0u);
  auto call = start_wait({on_ring(0, 1), on_ring(1, 1)}, true, kForEver);
  EXPECT_FALSE(call->answered());
  finish();
  EXPECT_EQ(call->wait(), 0);
  EXPECT_EQ(wait_args_.out.status, 1u);
  EXPECT_EQ(wait_args_.out.first_signaled, 0u);
}

TEST_F(RenderFence, WaitForAllLooksAtOneAfterTheOther) {
  EXPECT_EQ(wait({on_ring(0, 1), on_ring(0, 77)}, true), 0) << "the second is never reached";
  EXPECT_EQ(wait({on_ring(0, 77), on_ring(0, 1)}, true), -EINVAL);
}

TEST_F(RenderFence, WaitForAny) {
  run_on_ring_one();
  EXPECT_EQ(wait({}, false), -EINVAL);
  EXPECT_EQ(wait({on_ring(0, 1), on_ring(0, 77)}, false), -EINVAL);
  EXPECT_EQ(wait({on_ring(0, 1), on_ring(1, 1)}, false), 0);
  EXPECT_EQ(wait_args_.out.status, 1u);
  EXPECT_EQ(wait_args_.out.first_signaled, 1u);
  EXPECT_EQ(wait({on_ring(0, 1)}, false), 0);
  EXPECT_EQ(wait_args_.out.status, 0u);
  EXPECT_EQ(wait_args_.out.first_signaled, ~0u);
  EXPECT_EQ(wait({on_ring(0, 1), on_ring(0, 0), on_ring(0, 77)}, false), 0) << "long done ends the search";
  EXPECT_EQ(wait_args_.out.first_signaled, 1u);
}

TEST_F(RenderFence, WaitForAnyEndsWithASignal) {
  auto call = start_wait({on_ring(0, 1)}, false, kForEver);
  EXPECT_FALSE(call->answered());
  call->cancel();
  EXPECT_EQ(call->wait(), -EINTR);
}

TEST_F(RenderFence, WaitFencesChecksItsPointer) {
  drm_amdgpu_wait_fences args{};
  args.in = {kBadPointer, 1, 0, 0};
  EXPECT_EQ(client_.ioctl<WaitFences>(file_, args), -EFAULT);
  args.in = {kBadPointer, ~0u, 0, 0};
  EXPECT_EQ(client_.ioctl<WaitFences>(file_, args), -ENOMEM);
}

TEST_F(RenderFence, FencesBecomeSyncobjs) {
  const int handle = to_handle(on_ring(0, 1), AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ);
  ASSERT_GT(handle, 0);
  const auto syncobj = amdgpu(file_).syncobjs().find(static_cast<std::uint32_t>(handle));
  EXPECT_EQ(syncobj->fence_at(0), fence(1));
  const int fd = to_handle(on_ring(0, 1), AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD);
  ASSERT_GT(fd, 0);
  uapi::drm::drm_syncobj_handle import{0, 0, fd, 0, 0};
  EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjFdToHandle>(file_, import), 0);
  ::close(fd);
}

TEST_F(RenderFence, FencesBecomeSyncFiles) {
  const int fd = to_handle(on_ring(0, 1), AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD);
  ASSERT_GT(fd, 0);
  pollfd poll{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  finish();
  EXPECT_EQ(::poll(&poll, 1, 5000), 1);
  ::close(fd);
}

TEST_F(RenderFence, FenceToHandleChecksTheFenceFirst) {
  EXPECT_EQ(to_handle(on_ring(0, 77), 77), -EINVAL);
  EXPECT_EQ(to_handle(on_ring(0, 1), 77), -EINVAL);
  EXPECT_EQ(to_handle(on_ring(2, 1), AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ), -EINVAL);
  EXPECT_GT(to_handle(on_ring(1, 0), AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ), 0)
      << "signalled, as nothing was there";
}

}  // namespace
}  // namespace understudy::kfd
