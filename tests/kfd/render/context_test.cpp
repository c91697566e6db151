// CTX, SCHED and VM. Expected values: facts/kfd.md D.5, amdgpu_ctx.c, amdgpu_sched.c.
#include "tests/kfd/render/render_fixture.h"
#include "tests/support/child_process.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

class RenderContext : public RenderTest {
 protected:
  int ctx(std::uint32_t op, std::uint32_t id, std::uint32_t flags = 0) {
    args_ = {};
    args_.in = {op, flags, id, 0};
    return client_.ioctl<Ctx>(file_, args_);
  }
  int sched(const FileRef& file, std::uint32_t op, int fd, std::int32_t priority, std::uint32_t context = 0) {
    drm_amdgpu_sched args{};
    args.in = {op, static_cast<std::uint32_t>(fd), priority, context};
    return client_.ioctl<Sched>(file, args);
  }
  drm_amdgpu_ctx args_{};
};

TEST_F(RenderContext, IdsAreTheLowestFreeNumbersFromOne) {
  EXPECT_EQ(make_context(), 1);
  EXPECT_EQ(make_context(), 2);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_FREE_CTX, 1), 0);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_FREE_CTX, 1), -EINVAL);
  EXPECT_EQ(make_context(), 1);
}

TEST_F(RenderContext, FlagsOperationsAndIdsAreChecked) {
  make_context();
  for (std::uint32_t op = AMDGPU_CTX_OP_ALLOC_CTX; op <= AMDGPU_CTX_OP_GET_STABLE_PSTATE; ++op) {
    EXPECT_EQ(ctx(op, 1, 1), -EINVAL) << op;
  }
  for (std::uint32_t op = AMDGPU_CTX_OP_FREE_CTX; op <= AMDGPU_CTX_OP_SET_STABLE_PSTATE; ++op) {
    EXPECT_EQ(ctx(op, kNoSuchContext), -EINVAL) << op;
  }
  EXPECT_EQ(ctx(0, 1), -EINVAL);
  EXPECT_EQ(ctx(7, 1), -EINVAL);
}

TEST_F(RenderContext, AFreshContextHasLostNothing) {
  make_context();
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_QUERY_STATE, 1), 0);
  EXPECT_EQ(args_.out.state.flags, 0u);
  EXPECT_EQ(args_.out.state.hangs, 0u);
  EXPECT_EQ(args_.out.state.reset_status, AMDGPU_CTX_NO_RESET);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_QUERY_STATE2, 1), 0);
  EXPECT_EQ(args_.out.state.flags, 0u);
}

TEST_F(RenderContext, GarbageAsPriorityIsNormal) {
  EXPECT_GT(make_context(12345), 0);
  EXPECT_GT(make_context(AMDGPU_CTX_PRIORITY_UNSET), 0);
  EXPECT_GT(make_context(AMDGPU_CTX_PRIORITY_VERY_LOW), 0);
}

TEST_F(RenderContext, HighPriorityIsForThePrivileged) {
  if (::geteuid() != 0) GTEST_SKIP() << "cannot give up rights it does not have";
  EXPECT_GT(make_context(AMDGPU_CTX_PRIORITY_HIGH), 0);
  test::SharedMemory memory;
  const test::ChildProcess child([] {
    if (::setuid(65534) != 0) ::_exit(1);
  });
  test::TestClient nobody(machine_, child.pid());
  const FileRef file = nobody.open("dri/renderD128");
  drm_amdgpu_ctx args{};
  args.in = {AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, AMDGPU_CTX_PRIORITY_HIGH};
  EXPECT_EQ(nobody.ioctl<Ctx>(file, memory.put(args)), -EACCES);
  args.in.priority = AMDGPU_CTX_PRIORITY_NORMAL;
  EXPECT_EQ(nobody.ioctl<Ctx>(file, memory.put(args)), 0);
}

TEST_F(RenderContext, OneContextHoldsTheStablePowerState) {
  make_context();
  make_context();
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 1, 16), -EINVAL);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 1, 5), -EINVAL);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 1, AMDGPU_CTX_STABLE_PSTATE_PEAK), 0);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 2, AMDGPU_CTX_STABLE_PSTATE_STANDARD), -EBUSY);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_GET_STABLE_PSTATE, 2), 0);
  EXPECT_EQ(args_.out.pstate.flags, AMDGPU_CTX_STABLE_PSTATE_PEAK) << "it is the GPU's";
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_FREE_CTX, 1), 0);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_GET_STABLE_PSTATE, 2), 0);
  EXPECT_EQ(args_.out.pstate.flags, AMDGPU_CTX_STABLE_PSTATE_NONE);
  EXPECT_EQ(ctx(AMDGPU_CTX_OP_SET_STABLE_PSTATE, 2, AMDGPU_CTX_STABLE_PSTATE_STANDARD), 0);
  client_.close(file_);
  EXPECT_EQ(gpu().stable_pstate().level(), AMDGPU_CTX_STABLE_PSTATE_NONE);
}

TEST_F(RenderContext, SchedIsForMasters) {
  EXPECT_EQ(sched(file_, AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE, 0, 0), -EACCES);
  const FileRef master = client_.open("dri/card0");
  const int render = machine_.files().make_descriptor(file_).value().release();
  make_context();
  EXPECT_EQ(sched(master, 0, render, 0), -EINVAL);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE, render, 77), -EINVAL);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE, -1, 0), -EINVAL);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE, STDERR_FILENO, 0), -EINVAL);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_PROCESS_PRIORITY_OVERRIDE, render, 0), 0);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE, render, 0, kNoSuchContext), -EINVAL);
  EXPECT_EQ(sched(master, AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE, render, 0, 1), 0);
  ::close(render);
}

TEST_F(RenderContext, VmidsCanBeReserved) {
  const auto vm = [&](std::uint32_t op, std::uint32_t flags) {
    drm_amdgpu_vm args{};
    args.in = {op, flags};
    return client_.ioctl<Vm>(file_, args);
  };
  EXPECT_EQ(vm(AMDGPU_VM_OP_RESERVE_VMID, 0), 0);
  EXPECT_EQ(vm(AMDGPU_VM_OP_UNRESERVE_VMID, 0), 0);
  EXPECT_EQ(vm(AMDGPU_VM_OP_RESERVE_VMID, 1), -EINVAL);
  EXPECT_EQ(vm(0, 0), -EINVAL);
  EXPECT_EQ(vm(3, 0), -EINVAL);
}

TEST_F(RenderContext, UserQueuesAreNotEnabled) {
  constexpr int kErrnoNotSupp = 524;
  drm_amdgpu_userq queue{};
  EXPECT_EQ(client_.ioctl<Userq>(file_, queue), -kErrnoNotSupp);
  drm_amdgpu_userq_signal signal{};
  EXPECT_EQ(client_.ioctl<UserqSignal>(file_, signal), -kErrnoNotSupp);
  drm_amdgpu_userq_wait wait{};
  EXPECT_EQ(client_.ioctl<UserqWait>(file_, wait), -kErrnoNotSupp);
}

}  // namespace
}  // namespace understudy::kfd
