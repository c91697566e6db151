// How /dev/kfd finds a handler, and what it answers when there is none; device queries.
#include <signal.h>
#include <sys/wait.h>

#include "tests/kfd/kfd_fixture.h"
#include "uapi/kfd_rocm.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint32_t command(std::uint32_t nr, std::uint32_t size = 8) {
  return 3u << 30 | size << 16 | 'K' << 8 | nr;
}

// A process that does nothing until its end.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

class Dispatch : public KfdTest {};

TEST_F(Dispatch, NumbersOutsideTheRangesAreEnotty) {
  const auto kfd = open_kfd();
  for (const std::uint32_t nr : {0x00u, 0x27u, 0x7fu, 0x86u, 0xffu}) {
    EXPECT_EQ(raw_ioctl(kfd, command(nr), kBadPointer), -ENOTTY) << nr;
  }
}

TEST_F(Dispatch, HoleInARangeIsEinval) {
  EXPECT_EQ(raw_ioctl(open_kfd(), command(0x82, 40), kBadPointer), -EINVAL);
}

TEST_F(Dispatch, UpstreamHasNoRocmNumbers) {
  Settings settings;
  settings.flavour.rocm_dkms = false;
  build({TestGpu{}}, settings);
  const auto kfd = open_kfd();
  for (const std::uint32_t nr : {0x80u, 0x81u, 0x82u, 0x83u, 0x84u, 0x85u}) {
    EXPECT_EQ(raw_ioctl(kfd, command(nr), kBadPointer), -ENOTTY) << nr;
  }
}

TEST_F(Dispatch, MinorGatesWhatCameLater) {
  Settings settings;
  settings.flavour.kfd_minor = 11;
  build({TestGpu{}}, settings);
  const auto kfd = open_kfd();
  kfd_ioctl_get_version_args version{};
  EXPECT_EQ(ioctl<GetVersion>(kfd, version), 0);
  EXPECT_EQ(version.major_version, 1u);
  EXPECT_EQ(version.minor_version, 11u);
  kfd_ioctl_export_dmabuf_args args{};
  EXPECT_EQ(ioctl<ExportDmabuf>(kfd, args), -ENOTTY);
}

TEST_F(Dispatch, TypeDirectionAndSizeOfTheCommandAreNotCompared) {
  std::uint32_t major = 0;
  EXPECT_EQ(raw_ioctl(open_kfd(), 4u << 16 | 'x' << 8 | 0x01, reinterpret_cast<std::uint64_t>(&major)), 0);
  EXPECT_EQ(major, 1u);
}

TEST_F(Dispatch, ShorterStructOfOldUserSpaceIsFilledWithZeros) {
  // As libhsakmt 5.2.3 passes it: 88 of 96 bytes.
  kfd_ioctl_create_queue_args args{};
  args.queue_percentage = 100;
  args.gpu_id = kNoSuchGpu;
  EXPECT_EQ(ioctl<CreateQueue>(open_kfd(), args, 0xc0584b02), -EINVAL);
}

TEST_F(Dispatch, LongerStructIsCopiedBackWhole) {
  struct {
    kfd_ioctl_get_version_args known;
    std::uint64_t beyond;
  } args{{}, 42};
  EXPECT_EQ(ioctl<GetVersion>(open_kfd(), args.known, 2u << 30 | 16 << 16 | 'K' << 8 | 0x01), 0);
  // A read-only command starts from zeros.
  EXPECT_EQ(args.beyond, 0u);
}

TEST_F(Dispatch, BadPointerIsEfault) {
  EXPECT_EQ(raw_ioctl(open_kfd(), GetVersion::kCmd, kBadPointer), -EFAULT);
  EXPECT_EQ(raw_ioctl(open_kfd(), CreateEvent::kCmd, kBadPointer), -EFAULT);
}

TEST_F(Dispatch, BadPointerInEveryRowIsEfaultOrWhatComesBeforeTheCopy) {
  const auto kfd = open_kfd();
  for (const KfdIoctlVersion& version : kfd_ioctl_versions()) {
    if (version.kfd_minor > 17) continue;
    for (const IoctlRow& row : version.added) {
      const auto& descriptor = row.descriptor();
      const int result = raw_ioctl(kfd, descriptor.cmd, kBadPointer);
      const bool privileged = descriptor.nr == CriuOp::kNr;
      EXPECT_TRUE(result == -EFAULT || (privileged && result == -EACCES))
          << descriptor.name << " gave " << result;
    }
  }
}

TEST_F(Dispatch, InheritedFileIsEbadfInTheChild) {
  const auto kfd = open_kfd();
  const Sleeper child;
  kfd_ioctl_get_version_args args{};
  EXPECT_EQ(start<GetVersion>(kfd, args, caller_of(child.pid())).second.get(), -EBADF);
}

class KfdMmap : public KfdTest {
 protected:
  int error_of(const FileRef& file, std::uint64_t type, std::uint64_t gpu_id, std::uint64_t length,
               const Caller& caller) {
    const auto result = mmap(file, type << 62 | gpu_id << 46, length, caller);
    return result ? 0 : result.error().number();
  }
  int error_of(std::uint64_t type, std::uint64_t gpu_id, std::uint64_t length) {
    return error_of(open_kfd(), type, gpu_id, length, self());
  }
};

TEST_F(KfdMmap, OfAChildWithoutKfdIsEinvalBefore7) {
  const auto kfd = open_kfd();
  const Sleeper child;
  EXPECT_EQ(error_of(kfd, 3, 0x1234, 8192, caller_of(child.pid())), EINVAL);
  const auto own = open_kfd(caller_of(child.pid()));
  EXPECT_EQ(error_of(kfd, 3, 0x1234, 8192, caller_of(child.pid())), 0);
}

TEST_F(KfdMmap, OfAChildIsEbadfSince7) {
  Settings settings;
  settings.flavour.kfd_minor = 23;
  build({TestGpu{}}, settings);
  const auto kfd = open_kfd();
  const Sleeper child;
  EXPECT_EQ(error_of(kfd, 3, 0x1234, 8192, caller_of(child.pid())), EBADF);
}

TEST_F(Dispatch, UnknownNumberComesBeforeTheWrongProcess) {
  const auto kfd = open_kfd();
  const Sleeper child;
  EXPECT_EQ(start_raw(kfd, command(0x7f), kBadPointer, caller_of(child.pid())).second.get(), -ENOTTY);
  EXPECT_EQ(start_raw(kfd, command(0x82), kBadPointer, caller_of(child.pid())).second.get(), -EBADF);
}

TEST_F(Dispatch, ChildThatOpensAgainGetsAFreshProcess) {
  const auto kfd = open_ready();
  const Sleeper child;
  const auto fresh = open_kfd(caller_of(child.pid()));
  EXPECT_NE(&fresh->process(), &kfd->process());
  EXPECT_FALSE(fresh->process().devices()[0].file);
}

TEST_F(Dispatch, TwoOpensShareTheProcess) {
  EXPECT_EQ(&open_kfd()->process(), &open_kfd()->process());
}

TEST_F(Dispatch, DeprecatedDebuggerIsEperm) {
  const auto kfd = open_kfd();
  kfd_ioctl_dbg_register_args args{};
  EXPECT_EQ(ioctl<DbgRegisterDeprecated>(kfd, args), -EPERM);
}

TEST(KfdIoctlTable, RowsAreUniqueAndSortedWithinAVersion) {
  std::vector<std::uint32_t> seen;
  for (const KfdIoctlVersion& version : kfd_ioctl_versions()) {
    std::uint32_t last = 0;
    for (const IoctlRow& row : version.added) {
      EXPECT_GT(row.nr, last) << version.name;
      last = row.nr;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), row.nr), 0);
      seen.push_back(row.nr);
    }
  }
}

TEST(KfdIoctlTable, HasEveryIoctlOfBothHeaders) {
  std::vector<std::uint32_t> seen;
  for (const KfdIoctlVersion& version : kfd_ioctl_versions()) {
    for (const IoctlRow& row : version.added) seen.push_back(row.nr);
  }
  for (const auto headers : {uapi::kfd::ioctls(), uapi::kfd_rocm::ioctls()}) {
    for (const uapi::IoctlDescriptor& ioctl : headers) {
      EXPECT_NE(std::count(seen.begin(), seen.end(), ioctl.nr), 0) << ioctl.name;
    }
  }
}

class Queries : public KfdTest {};

TEST_F(Queries, ClockCountersOfNoGpuIsNoError) {
  kfd_ioctl_get_clock_counters_args args{};
  EXPECT_EQ(ioctl<GetClockCounters>(open_kfd(), args), 0);
  EXPECT_EQ(args.gpu_clock_counter, 0u);
  EXPECT_EQ(args.system_clock_freq, 1'000'000'000u);
  EXPECT_NE(args.cpu_clock_counter, 0u);
  args.gpu_id = 0x1234;
  EXPECT_EQ(ioctl<GetClockCounters>(open_kfd(), args), 0);
  EXPECT_NE(args.gpu_clock_counter, 0u);
}

TEST_F(Queries, ProcessApertures) {
  kfd_ioctl_get_process_apertures_args args{};
  EXPECT_EQ(ioctl<GetProcessApertures>(open_kfd(), args), 0);
  ASSERT_EQ(args.num_of_nodes, 1u);
  const auto& apertures = args.process_apertures[0];
  EXPECT_EQ(apertures.gpu_id, 0x1234u);
  EXPECT_EQ(apertures.lds_base, 0x0001'0000'0000'0000u);
  EXPECT_EQ(apertures.lds_limit, 0x0001'0000'ffff'ffffu);
  EXPECT_EQ(apertures.scratch_base, 0x0002'0000'0000'0000u);
  EXPECT_EQ(apertures.scratch_limit, 0x0002'0000'ffff'ffffu);
  EXPECT_EQ(apertures.gpuvm_base, 0x10000u);
  EXPECT_EQ(apertures.gpuvm_limit, 0x7fff'ffff'ffffu);
}

TEST_F(Queries, OldAperturesStopAtSevenGpus) {
  std::vector<TestGpu> gpus(9);
  for (std::uint16_t index = 0; index < 9; ++index)
    gpus[index].gpu_id = static_cast<std::uint16_t>(index + 1);
  build(gpus);
  kfd_ioctl_get_process_apertures_args args{};
  EXPECT_EQ(ioctl<GetProcessApertures>(open_kfd(), args), 0);
  EXPECT_EQ(args.num_of_nodes, 7u);
}

TEST_F(Queries, NewApertures) {
  build({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2}});
  const auto kfd = open_kfd();
  kfd_ioctl_get_process_apertures_new_args args{};
  args.kfd_process_device_apertures_ptr = kBadPointer;
  EXPECT_EQ(ioctl<GetProcessAperturesNew>(kfd, args), 0);
  EXPECT_EQ(args.num_of_nodes, 2u);
  EXPECT_EQ(ioctl<GetProcessAperturesNew>(kfd, args), -EFAULT);
  args.num_of_nodes = 4;
  EXPECT_EQ(ioctl<GetProcessAperturesNew>(kfd, args), -EINVAL);
  kfd_process_device_apertures apertures[3] = {};
  args.num_of_nodes = 3;
  args.kfd_process_device_apertures_ptr = reinterpret_cast<std::uint64_t>(apertures);
  EXPECT_EQ(ioctl<GetProcessAperturesNew>(kfd, args), 0);
  EXPECT_EQ(args.num_of_nodes, 2u);
  EXPECT_EQ(apertures[1].gpu_id, 2u);
}

TEST_F(Queries, TileConfigClampsCountsAndNeedsNoVm) {
  std::uint32_t tiles[64] = {}, macro_tiles[64] = {};
  kfd_ioctl_get_tile_config_args args{};
  args.gpu_id = 0x1234;
  args.num_tile_configs = 64;
  args.num_macro_tile_configs = 64;
  args.tile_config_ptr = reinterpret_cast<std::uint64_t>(tiles);
  args.macro_tile_config_ptr = reinterpret_cast<std::uint64_t>(macro_tiles);
  EXPECT_EQ(ioctl<GetTileConfig>(open_kfd(), args), 0);
  EXPECT_EQ(args.num_tile_configs, 32u);
  EXPECT_EQ(args.num_macro_tile_configs, 16u);
  EXPECT_EQ(args.gb_addr_config, 0x12345u);
  args.macro_tile_config_ptr = kBadPointer;
  EXPECT_EQ(ioctl<GetTileConfig>(open_kfd(), args), -EFAULT);
  EXPECT_EQ(args.num_tile_configs, 32u);
  EXPECT_EQ(args.num_macro_tile_configs, 0u);
  args.gpu_id = kNoSuchGpu;
  EXPECT_EQ(ioctl<GetTileConfig>(open_kfd(), args), -EINVAL);
}

TEST_F(Queries, MemoryPolicyChecksPolicyThenGpuThenVm) {
  kfd_ioctl_set_memory_policy_args args{};
  args.gpu_id = kNoSuchGpu;
  args.default_policy = 2;
  EXPECT_EQ(ioctl<SetMemoryPolicy>(open_kfd(), args), -EINVAL);
  args.default_policy = KFD_IOC_CACHE_POLICY_NONCOHERENT;
  EXPECT_EQ(ioctl<SetMemoryPolicy>(open_kfd(), args), -EINVAL);
  args.gpu_id = 0x1234;
  EXPECT_EQ(ioctl<SetMemoryPolicy>(open_kfd(), args), -ESRCH);
  args.alternate_aperture_base = 12345;  // ignored from gfx9 on
  EXPECT_EQ(ioctl<SetMemoryPolicy>(open_ready(), args), 0);
}

TEST_F(Queries, TrapHandlerAndScratchNeedTheVm) {
  kfd_ioctl_set_trap_handler_args trap{};
  trap.gpu_id = 0x1234;
  EXPECT_EQ(ioctl<SetTrapHandler>(open_kfd(), trap), -ESRCH);
  kfd_ioctl_set_scratch_backing_va_args scratch{};
  scratch.gpu_id = 0x1234;
  EXPECT_EQ(ioctl<SetScratchBackingVa>(open_kfd(), scratch), -ENODEV);
  const auto kfd = open_ready();
  EXPECT_EQ(ioctl<SetTrapHandler>(kfd, trap), 0);
  EXPECT_EQ(ioctl<SetScratchBackingVa>(kfd, scratch), 0);
  trap.gpu_id = scratch.gpu_id = kNoSuchGpu;
  EXPECT_EQ(ioctl<SetTrapHandler>(kfd, trap), -EINVAL);
  EXPECT_EQ(ioctl<SetScratchBackingVa>(kfd, scratch), -EINVAL);
}

TEST_F(Queries, XnackIsOffUntilSet) {
  const auto kfd = open_kfd();
  kfd_ioctl_set_xnack_mode_args args{-1};
  EXPECT_EQ(ioctl<SetXnackMode>(kfd, args), 0);
  EXPECT_EQ(args.xnack_enabled, 0);
  args.xnack_enabled = 1;
  EXPECT_EQ(ioctl<SetXnackMode>(kfd, args), 0);
  args.xnack_enabled = -1;
  EXPECT_EQ(ioctl<SetXnackMode>(kfd, args), 0);
  EXPECT_EQ(args.xnack_enabled, 1);
}

TEST_F(Queries, XnackIsEpermWhenOneGpuLacksIt) {
  build({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2, .supports_xnack = false}});
  kfd_ioctl_set_xnack_mode_args args{1};
  EXPECT_EQ(ioctl<SetXnackMode>(open_kfd(), args), -EPERM);
  args.xnack_enabled = 0;
  EXPECT_EQ(ioctl<SetXnackMode>(open_kfd(), args), 0);
}

TEST_F(Queries, RuntimeEnablesOnce) {
  const auto kfd = open_kfd();
  kfd_ioctl_runtime_enable_args args{};
  args.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK;
  EXPECT_EQ(ioctl<RuntimeEnable>(kfd, args), 0);
  EXPECT_EQ(ioctl<RuntimeEnable>(kfd, args), -EBUSY);
  args.mode_mask = 0;
  EXPECT_EQ(ioctl<RuntimeEnable>(kfd, args), 0);
  EXPECT_EQ(ioctl<RuntimeEnable>(kfd, args), 0);
}

TEST_F(KfdMmap, DoorbellsAreOneSlice) {
  EXPECT_EQ(error_of(3, 0x1234, 8192), 0);
  EXPECT_EQ(error_of(3, 0x1234, 4096), EINVAL);
  EXPECT_EQ(error_of(3, kNoSuchGpu, 8192), ENODEV);
}

TEST_F(KfdMmap, EveryMappingOfDoorbellsShowsTheSamePages) {
  const auto kfd = open_kfd();
  const auto first = mmap(kfd, std::uint64_t{3} << 62 | std::uint64_t{0x1234} << 46, 8192, self());
  const auto second = mmap(kfd, std::uint64_t{3} << 62 | std::uint64_t{0x1234} << 46, 8192, self());
  const auto a = Mapping::of_fd(first.value().fd.get(), 8192).value();
  const auto b = Mapping::of_fd(second.value().fd.get(), 8192).value();
  a.data()[8] = std::byte{7};
  EXPECT_EQ(b.data()[8], std::byte{7});
}

TEST_F(KfdMmap, MmioIsOnePage) {
  EXPECT_EQ(error_of(0, 0x1234, 4096), 0);
  EXPECT_EQ(error_of(0, 0x1234, 8192), EINVAL);
  EXPECT_EQ(error_of(0, 0, 4096), ENODEV);
}

TEST_F(KfdMmap, ReservedMemoryIsEinval) {
  EXPECT_EQ(error_of(1, 0x1234, 8192), EINVAL);
  EXPECT_EQ(error_of(1, 0, 8192), ENODEV);
}

TEST_F(KfdMmap, EventPageWithoutOneIsEinval) {
  EXPECT_EQ(error_of(2, 0, 32768), EINVAL);
}

}  // namespace
}  // namespace understudy::kfd::testing
