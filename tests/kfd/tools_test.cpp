// What tools use: system-management events, checkpointing, debugging, profiling, secondary contexts.
#include <linux/capability.h>
#include <poll.h>

#include "tests/kfd/queue_rig.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

class Tools : public QueueTest {
 protected:
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
  UniqueFd open_smi() {
    kfd_ioctl_smi_events_args args{0x1234, 0};
    EXPECT_EQ(ioctl<uapi::kfd::SmiEvents>(kfd_, args), 0);
    HandedFd& handed = last_call_->handed_fds().at(0);
    EXPECT_FALSE(handed.close_on_exec);
    return std::move(handed.fd);
  }
  static void select(const UniqueFd& fd, std::uint64_t mask) {
    ASSERT_EQ(::write(fd.get(), &mask, sizeof mask), static_cast<ssize_t>(sizeof mask));
  }
  static std::string read_line(const UniqueFd& fd) {
    pollfd ready{fd.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, -1), 1);
    char text[256];
    const ssize_t got = ::read(fd.get(), text, sizeof text);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : std::string();
  }
};

TEST_F(Tools, SmiOfUnknownGpuIsEinval) {
  kfd_ioctl_smi_events_args args{kNoSuchGpu, 0};
  EXPECT_EQ(ioctl<uapi::kfd::SmiEvents>(kfd_, args), -EINVAL);
}

TEST_F(Tools, SmiReadsNothingUntilAskedFor) {
  const UniqueFd smi = open_smi();
  driver_->smi_events(*gpus_[0]).report(0, KFD_SMI_EVENT_GPU_PRE_RESET, "1");
  char byte;
  EXPECT_EQ(::read(smi.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Tools, SmiTellsOfVmFaultsOfThisProcess) {
  const UniqueFd smi = open_smi();
  select(smi, 1u << (KFD_SMI_EVENT_VMFAULT - 1));
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  // The mask travels on its own; ask until it has arrived.
  const auto file = [&] {
    return std::dynamic_pointer_cast<SmiFile>(
        machine_->files().by_client_fd(*self().client, smi.get()).value());
  }();
  eventually([&] { return file->wants(::getpid(), KFD_SMI_EVENT_VMFAULT); });
  submit(queue, {5, 0x1000, 0, 1});
  char expected[64];
  std::snprintf(expected, sizeof expected, "1 %x:%s\n", ::getpid(), self().client->name().c_str());
  EXPECT_EQ(read_line(smi), expected);
}

TEST_F(Tools, SmiOfOthersNeedsPrivilegeAndTheAllProcessBit) {
  SmiFile mine(100, /*privileged=*/false), root(100, /*privileged=*/true);
  const std::uint64_t fault = 1, all = fault | std::uint64_t{1} << 63;
  const auto select = [](SmiFile& file, std::uint64_t mask) {
    return file.write(Caller{}, std::as_bytes(std::span(&mask, 1)));
  };
  ASSERT_TRUE(select(mine, all));
  ASSERT_TRUE(select(root, fault));
  EXPECT_TRUE(mine.wants(100, KFD_SMI_EVENT_VMFAULT));
  EXPECT_FALSE(mine.wants(200, KFD_SMI_EVENT_VMFAULT));
  EXPECT_FALSE(root.wants(200, KFD_SMI_EVENT_VMFAULT));
  ASSERT_TRUE(select(root, all));
  EXPECT_TRUE(root.wants(200, KFD_SMI_EVENT_VMFAULT));
  EXPECT_FALSE(root.wants(0, KFD_SMI_EVENT_GPU_PRE_RESET));
}

TEST_F(Tools, SmiMaskOfLessThanEightBytesIsEfault) {
  SmiFile file(1, false);
  const std::byte four[4] = {};
  EXPECT_EQ(file.write(Caller{}, four).error(), Errno(EFAULT));
}

TEST_F(Tools, DebuggerAnswersAsWithoutFirmware) {
  kfd_ioctl_dbg_trap_args args{};
  args.pid = 0x7ffffff0;
  EXPECT_EQ(ioctl<DbgTrap>(kfd_, args), -ESRCH);
  args.pid = 1;
  EXPECT_EQ(ioctl<DbgTrap>(kfd_, args), -ESRCH);
  args.pid = static_cast<std::uint32_t>(::getpid());
  args.op = KFD_IOC_DBG_TRAP_ENABLE;
  EXPECT_EQ(ioctl<DbgTrap>(kfd_, args), -ENODEV);
  args.op = KFD_IOC_DBG_TRAP_DISABLE;
  EXPECT_EQ(ioctl<DbgTrap>(kfd_, args), -EINVAL);
}

TEST_F(Tools, CheckpointPausesAndCounts) {
  if (!self().client->has_capability(CAP_SYS_ADMIN)) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  auto queue = make_queue(KFD_IOC_QUEUE_TYPE_SDMA);
  const Memory memory = make_memory(kPage);
  kfd_ioctl_criu_args args{};
  args.op = KFD_CRIU_OP_UNPAUSE;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), -EINVAL);
  args.op = KFD_CRIU_OP_PROCESS_INFO;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), 0);
  EXPECT_EQ(args.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(args.num_devices, 1u);
  EXPECT_EQ(args.num_bos, 3u);
  EXPECT_EQ(args.num_objects, 1u);
  submit(queue, {5, low(memory.va), high(memory.va), 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(std::atomic_ref(memory.as<std::uint32_t>()[0]).load(), 0u);
  args.op = KFD_CRIU_OP_CHECKPOINT;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), -EINVAL);
  args.op = KFD_CRIU_OP_UNPAUSE;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), 0);
  wait_done(queue);
  args.op = KFD_CRIU_OP_RESUME;
  args.pid = 0x7ffffff0;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), -ESRCH);
  args.op = 9;
  EXPECT_EQ(ioctl<CriuOp>(kfd_, args), -EINVAL);
}

TEST_F(Tools, ProfilerLocksCountersForOneProcess) {
  use_minor(23);
  kfd_ioctl_profiler_args args{};
  args.op = KFD_IOC_PROFILER_VERSION;
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), 0);
  EXPECT_EQ(args.version, KFD_IOC_PROFILER_VERSION_NUM);
  args.op = KFD_IOC_PROFILER_PTL_CONTROL;
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), -EOPNOTSUPP);
  args.op = 9;
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), -EINVAL);
  if (!self().client->has_capability(CAP_SYS_ADMIN)) GTEST_SKIP() << "needs CAP_PERFMON";
  args.op = KFD_IOC_PROFILER_PMC;
  args.pmc = {kNoSuchGpu, 1, 0};
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), -EINVAL);
  args.pmc = {0x1234, 1, 0};
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), 0);
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), -EALREADY);
  args.pmc.lock = 0;
  EXPECT_EQ(ioctl<Profiler>(kfd_, args), 0);
}

TEST_F(Tools, SecondaryContextIsItsOwnAndEndsWithItsFile) {
  use_minor(23);
  const auto second = open_kfd();
  EXPECT_EQ(raw_ioctl(second, CreateProcess::kCmd, 0), 0);
  EXPECT_EQ(raw_ioctl(second, CreateProcess::kCmd, 0), -EINVAL);
  EXPECT_NE(&second->process(), &kfd_->process());
  const UniqueFd render = open_render();
  kfd_ioctl_acquire_vm_args acquire{};
  acquire.gpu_id = 0x1234;
  acquire.drm_fd = static_cast<std::uint32_t>(render_fds_[0].get());
  EXPECT_EQ(ioctl<AcquireVm>(second, acquire), -EINVAL);
  acquire.drm_fd = static_cast<std::uint32_t>(render.get());
  EXPECT_EQ(ioctl<AcquireVm>(second, acquire), 0);
  const Pages pages(kPage);
  EXPECT_EQ(alloc(second, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, 0x10000, pages.address()).result,
            -EOPNOTSUPP);
  EXPECT_EQ(set_svm(second, pages.address(), kPage, {}), -EOPNOTSUPP);
  kfd_ioctl_dbg_trap_args trap{};
  EXPECT_EQ(ioctl<DbgTrap>(second, trap), -EOPNOTSUPP);
  const std::uint64_t before = gpus_[0]->vram_used_bytes();
  EXPECT_EQ(alloc(second, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kPage, 0x10000).result, 0);
  machine_->files().remove(second->id());
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), before);
}

}  // namespace
}  // namespace understudy::kfd::testing
