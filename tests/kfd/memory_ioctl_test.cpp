#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr std::uint32_t kVram = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
constexpr std::uint32_t kUserptr = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
constexpr std::uint64_t kVa = 0x7000'0000'0000;

class Memory : public KfdTest {};
class AllocMemory : public KfdTest {};
class MapMemory : public KfdTest {};

TEST_F(AllocMemory, HandlesCarryTheGpuIdAndTheLowestFreeIndex) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, kVram, kPage, kVa).handle, 0x1234'0000'0000u);
  const auto second = alloc(kfd, kVram, kPage, kVa + kMiB);
  EXPECT_EQ(second.handle, 0x1234'0000'0001u);
  EXPECT_EQ(alloc(kfd, kVram, kPage, kVa + 2 * kMiB).handle, 0x1234'0000'0002u);
  EXPECT_EQ(free(kfd, second.handle), 0);
  EXPECT_EQ(alloc(kfd, kVram, kPage, kVa + 3 * kMiB).handle, 0x1234'0000'0001u);
}

TEST_F(AllocMemory, SizeZeroIsEinval) {
  EXPECT_EQ(alloc(open_ready(), kVram, 0, kVa).result, -EINVAL);
}

TEST_F(AllocMemory, WithoutAcquireVmIsEnodev) {
  EXPECT_EQ(alloc(open_kfd(), kVram, kPage, kVa).result, -ENODEV);
}

TEST_F(AllocMemory, UnknownGpuIsEinval) {
  kfd_ioctl_alloc_memory_of_gpu_args args{};
  args.size = kPage;
  args.flags = kVram;
  for (const std::uint32_t gpu_id : {0u, kNoSuchGpu}) {
    args.gpu_id = gpu_id;
    EXPECT_EQ(ioctl<AllocMemoryOfGpu>(open_kfd(), args), -EINVAL);
  }
}

TEST_F(AllocMemory, PublicVramOnSmallBarIsEinvalBeforeTheMissingVm) {
  build({TestGpu{.large_bar = false}});
  EXPECT_EQ(alloc(open_kfd(), kVram | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC, kPage, kVa).result, -EINVAL);
}

TEST_F(AllocMemory, DoorbellTakesExactlyTheSlice) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, 4096, kVa).result, -EINVAL);
  EXPECT_EQ(alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, 8192, kVa).result, 0);
}

TEST_F(AllocMemory, MmioTakesExactlyAPageAndAnswersWithAKfdOffset) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, 8192, kVa).result, -EINVAL);
  const auto mmio = alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, 4096, kVa);
  EXPECT_EQ(mmio.result, 0);
  EXPECT_EQ(mmio.mmap_offset, std::uint64_t{0x1234} << 46);
}

TEST_F(AllocMemory, NoKindIsEinval) {
  EXPECT_EQ(alloc(open_ready(), KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, kPage, kVa).result, -EINVAL);
}

TEST_F(AllocMemory, FirstKindBitWins) {
  const auto kfd = open_ready();
  const std::uint64_t before = gpus_[0]->vram_used_bytes();
  EXPECT_EQ(alloc(kfd, kVram | kGtt, kPage, kVa).result, 0);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), before + kPage);
  EXPECT_EQ(gpus_[0]->gtt_used_bytes(), 0u);
}

TEST_F(AllocMemory, UserptrWithoutAddressIsEinval) {
  EXPECT_EQ(alloc(open_ready(), kUserptr, kPage, kVa, 0).result, -EINVAL);
}

TEST_F(AllocMemory, UserptrOfMissingPagesIsEfault) {
  EXPECT_EQ(alloc(open_ready(), kUserptr, kPage, kVa, 0x10000).result, -EFAULT);
}

// hmm.c: hmm_vma_fault.
TEST_F(AllocMemory, UserptrOfReadOnlyPagesIsEperm) {
  const Pages pages(kPage, PROT_READ);
  EXPECT_EQ(alloc(open_ready(), kUserptr, kPage, kVa, pages.address()).result, -EPERM);
}

TEST_F(AllocMemory, UserptrReachingPastItsMappingIsEfault) {
  const Pages pages(2 * kPage);
  ::munmap(pages.as<char>() + kPage, kPage);
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, kUserptr, 2 * kPage, kVa, pages.address()).result, -EFAULT);
  EXPECT_EQ(alloc(kfd, kUserptr, kPage, kVa, pages.address()).result, 0);
}

TEST_F(AllocMemory, AqlQueueMemoryHalvesTheSize) {
  const auto kfd = open_ready();
  const std::uint64_t before = gpus_[0]->vram_used_bytes();
  EXPECT_EQ(alloc(kfd, kVram | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, 2 * kPage, kVa).result, 0);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), before + kPage);
  EXPECT_EQ(alloc(kfd, kVram | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, 1, kVa).result, -EINVAL);
}

TEST_F(AllocMemory, MoreVramThanThereIsIsEnomem) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, kVram, 5 * kGiB, kVa).result, -ENOMEM);
  EXPECT_EQ(alloc(kfd, kVram, ~std::uint64_t{0}, kVa).result, -ENOMEM);
}

TEST_F(AllocMemory, PageTableReserveCannotBeAllocated) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, kVram, 4 * kGiB - 8 * kMiB, kVa).result, 0);
  EXPECT_EQ(alloc(kfd, kVram, kPage, kVa + 4 * kGiB).result, -ENOMEM);
}

TEST_F(AllocMemory, GttStopsAtTheTtmLimitAndUserptrAtTheSystemLimit) {
  const auto kfd = open_ready();
  EXPECT_EQ(alloc(kfd, kGtt, 6 * kGiB + kPage, kVa).result, -ENOMEM);
  EXPECT_EQ(alloc(kfd, kGtt, 6 * kGiB, kVa).result, 0);
  EXPECT_EQ(alloc(kfd, kUserptr, 3 * kGiB, kVa, kPage).result, -ENOMEM);
}

TEST_F(AllocMemory, LimitsOfTheMachineLowerVram) {
  Settings settings;
  settings.limits.vram_bytes = 64 * kMiB;
  settings.limits.vram_in_use_bytes = 16 * kMiB;
  build({TestGpu{}}, settings);
  const auto kfd = open_ready();
  EXPECT_EQ(available(kfd), 40 * kMiB);
  EXPECT_EQ(alloc(kfd, kVram, 42 * kMiB, kVa).result, -ENOMEM);
  EXPECT_EQ(alloc(kfd, kVram, 40 * kMiB, kVa).result, 0);
}

TEST_F(Memory, AvailableMemoryCountsInTwoMegabyteSteps) {
  const auto kfd = open_ready();
  const std::uint64_t before = available(kfd);
  EXPECT_EQ(before, 4 * kGiB - 8 * kMiB);
  const auto memory = alloc(kfd, kVram, kPage, kVa);
  EXPECT_EQ(available(kfd), before - 2 * kMiB);
  EXPECT_EQ(free(kfd, memory.handle), 0);
  EXPECT_EQ(available(kfd), before);
}

TEST_F(Memory, AvailableMemoryOfUnknownGpuIsEinval) {
  kfd_ioctl_get_available_memory_args args{};
  args.gpu_id = kNoSuchGpu;
  EXPECT_EQ(ioctl<AvailableMemory>(open_kfd(), args), -EINVAL);
}

TEST_F(Memory, ApuWithSmallCarveOutAllocatesVramFromSystemMemory) {
  build({TestGpu{.vram_bytes = 512 * kMiB, .is_apu = true}});
  const auto kfd = open_ready();
  EXPECT_EQ(available(kfd), 6 * kGiB);
  EXPECT_EQ(alloc(kfd, kVram, kGiB, kVa).result, 0);
  EXPECT_EQ(available(kfd), 5 * kGiB);
  EXPECT_EQ(gpus_[0]->gtt_used_bytes(), kGiB);
}

TEST_F(Memory, ClientMappingKeepsFreedMemoryAccounted) {
  const auto kfd = open_ready();
  const std::uint64_t before = available(kfd);
  const auto memory = alloc(kfd, kVram, 4 * kMiB, kVa);
  auto target = mmap(render_files_[0], memory.mmap_offset, 4 * kMiB, self());
  ASSERT_TRUE(target);
  EXPECT_EQ(free(kfd, memory.handle), 0);
  EXPECT_EQ(available(kfd), before - 4 * kMiB);
  target.value().fd.reset();
  EXPECT_EQ(available(kfd), before);
}

TEST_F(Memory, OnlyTheFileOfAcquireVmMayMapIt) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kGtt, kPage, kVa);
  const UniqueFd other = open_render();
  const auto refused = mmap(render_files_.back(), memory.mmap_offset, kPage, self());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errno(EACCES));
  EXPECT_TRUE(mmap(render_files_[0], memory.mmap_offset, kPage, self()));
}

TEST_F(Memory, UserptrCannotBeMappedThroughTheRenderNode) {
  const Pages pages(kPage);
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kUserptr, kPage, kVa, pages.address());
  const auto refused = mmap(render_files_[0], memory.mmap_offset, kPage, self());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errno(EPERM));
}

TEST_F(Memory, FreeOfUnknownHandleIsEinval) {
  const auto kfd = open_ready();
  EXPECT_EQ(free(kfd, 0x1234'0000'0007), -EINVAL);
  EXPECT_EQ(free(kfd, std::uint64_t{kNoSuchGpu} << 32), -EINVAL);
}

TEST_F(Memory, SecondFreeIsEinvalAndReported) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, kVa);
  EXPECT_EQ(free(kfd, memory.handle), 0);
  EXPECT_TRUE(machine_->ledger().findings().empty());
  EXPECT_EQ(free(kfd, memory.handle), -EINVAL);
  ASSERT_EQ(machine_->ledger().findings().size(), 1u);
  EXPECT_EQ(machine_->ledger().findings()[0].kind, FindingKind::kDoubleDestroy);
}

TEST_F(Memory, FreeWhileMappedIsEbusyAndKeepsTheHandle) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, kVa);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234}).result, 0);
  EXPECT_EQ(free(kfd, memory.handle), -EBUSY);
  EXPECT_EQ(unmap(kfd, memory.handle, {0x1234}).result, 0);
  EXPECT_EQ(free(kfd, memory.handle), 0);
}

TEST_F(Memory, StateSurvivesCloseAndDiesWithTheClient) {
  auto kfd = open_ready();
  const std::uint64_t before = available(kfd);
  const auto memory = alloc(kfd, kVram, 2 * kMiB, kVa);
  machine_->files().remove(kfd->id());
  kfd = open_kfd();
  EXPECT_EQ(available(kfd), before - 2 * kMiB);
  EXPECT_EQ(free(kfd, memory.handle), 0);
  EXPECT_EQ(alloc(kfd, kVram, 2 * kMiB, kVa).result, 0);
  machine_->clients().retire(self().client);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), 0u);
  EXPECT_EQ(machine_->ledger().live_count(ObjectKind::kKfdHandle), 0u);
}

TEST_F(MapMemory, ArgumentChecksInOrder) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, kVa);
  EXPECT_EQ(map(kfd, memory.handle, {}).result, -EINVAL);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234}, 2).result, -EINVAL);
  kfd_ioctl_map_memory_to_gpu_args args{};
  args.handle = memory.handle;
  args.n_devices = 1;
  args.device_ids_array_ptr = kBadPointer;
  EXPECT_EQ(ioctl<MapMemoryToGpu>(kfd, args), -EFAULT);
  EXPECT_EQ(map(kfd, std::uint64_t{kNoSuchGpu} << 32, {0x1234}).result, -EINVAL);
  EXPECT_EQ(map(kfd, 0x1234'0000'0007, {0x1234}).result, -ENOMEM);
  EXPECT_EQ(map(kfd, memory.handle, {kNoSuchGpu}).result, -EINVAL);
}

TEST_F(MapMemory, WithoutAcquireVmIsEnodev) {
  EXPECT_EQ(map(open_kfd(), 0x1234'0000'0000, {0x1234}).result, -ENODEV);
}

TEST_F(MapMemory, MappingTwiceIsOneMapping) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, kVa);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234, 0x1234}).n_success, 2u);
  EXPECT_EQ(unmap(kfd, memory.handle, {0x1234}).result, 0);
  EXPECT_EQ(unmap(kfd, memory.handle, {0x1234}).result, -EINVAL);
}

TEST_F(MapMemory, AddresslessMemoryCannotBeMapped) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, 0);
  EXPECT_EQ(memory.result, 0);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234}).result, -EINVAL);
}

TEST_F(MapMemory, UnalignedAddressIsEinvalOnlyHere) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram, kPage, kVa + 8);
  EXPECT_EQ(memory.result, 0);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234}).result, -EINVAL);
}

TEST_F(MapMemory, OverlapIsEinval) {
  const auto kfd = open_ready();
  const auto first = alloc(kfd, kVram, 2 * kPage, kVa);
  const auto second = alloc(kfd, kVram, 2 * kPage, kVa + kPage);
  EXPECT_EQ(map(kfd, first.handle, {0x1234}).result, 0);
  EXPECT_EQ(map(kfd, second.handle, {0x1234}).result, -EINVAL);
}

TEST_F(MapMemory, PartialSuccessIsReportedAndCanBeContinued) {
  build({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2}, TestGpu{.gpu_id = 3}});
  const auto kfd = open_kfd();
  acquire_vm(kfd, 0);
  acquire_vm(kfd, 1);
  const auto memory = alloc(kfd, kGtt, kPage, kVa);
  const auto stopped = map(kfd, memory.handle, {1, 2, 3});
  EXPECT_EQ(stopped.result, -ENODEV);
  EXPECT_EQ(stopped.n_success, 2u);
  acquire_vm(kfd, 2);
  const auto continued = map(kfd, memory.handle, {1, 2, 3}, stopped.n_success);
  EXPECT_EQ(continued.result, 0);
  EXPECT_EQ(continued.n_success, 3u);
}

TEST_F(MapMemory, PeerVramNeedsLargeBarOrAHive) {
  build({TestGpu{.gpu_id = 1, .large_bar = false}, TestGpu{.gpu_id = 2}});
  auto kfd = open_ready();
  EXPECT_EQ(map(kfd, alloc(kfd, kVram, kPage, kVa).handle, {2}).result, -EINVAL);
  EXPECT_EQ(map(kfd, alloc(kfd, kGtt, kPage, kVa).handle, {2}).result, 0);
  kfd.reset();
  render_files_.clear();
  render_fds_.clear();
  last_call_.reset();
  build({TestGpu{.gpu_id = 1, .large_bar = false, .hive_id = 7}, TestGpu{.gpu_id = 2, .hive_id = 7}});
  kfd = open_ready();
  EXPECT_EQ(map(kfd, alloc(kfd, kVram, kPage, kVa).handle, {2}).result, 0);
}

TEST_F(MapMemory, AqlQueueMemoryAppearsTwice) {
  const auto kfd = open_ready();
  const auto memory = alloc(kfd, kVram | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, 2 * kPage, kVa);
  EXPECT_EQ(map(kfd, memory.handle, {0x1234}).result, 0);
  const auto& vm = *render_files_[0]->vm();
  ASSERT_TRUE(vm.find_start(kVa));
  ASSERT_TRUE(vm.find_start(kVa + kPage));
  EXPECT_EQ(vm.find_start(kVa)->bo, vm.find_start(kVa + kPage)->bo);
}

TEST_F(MapMemory, PermissionsFollowTheFlags) {
  const auto kfd = open_ready();
  const auto readable = alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kPage, kVa);
  const auto executable =
      alloc(kfd, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE, kPage, kVa + kPage);
  EXPECT_EQ(map(kfd, readable.handle, {0x1234}).result, 0);
  EXPECT_EQ(map(kfd, executable.handle, {0x1234}).result, 0);
  const auto& vm = *render_files_[0]->vm();
  EXPECT_FALSE(vm.find(kVa)->permissions.writable);
  EXPECT_FALSE(vm.find(kVa)->permissions.executable);
  EXPECT_TRUE(vm.find(kVa + kPage)->permissions.executable);
}

class AcquireVm : public KfdTest {};

TEST_F(AcquireVm, WhatIsNotAFileIsEinval) {
  kfd_ioctl_acquire_vm_args args{};
  args.gpu_id = 0x1234;
  args.drm_fd = 9999;
  EXPECT_EQ(ioctl<uapi::kfd::AcquireVm>(open_kfd(), args), -EINVAL);
}

TEST_F(AcquireVm, AnotherFilesDescriptorIsEinval) {
  kfd_ioctl_acquire_vm_args args{};
  args.gpu_id = 0x1234;
  args.drm_fd = STDERR_FILENO;
  EXPECT_EQ(ioctl<uapi::kfd::AcquireVm>(open_kfd(), args), -EINVAL);
}

TEST_F(AcquireVm, UnknownGpuIsEinval) {
  const UniqueFd render = open_render();
  kfd_ioctl_acquire_vm_args args{};
  args.gpu_id = kNoSuchGpu;
  args.drm_fd = static_cast<std::uint32_t>(render.get());
  EXPECT_EQ(ioctl<uapi::kfd::AcquireVm>(open_kfd(), args), -EINVAL);
}

TEST_F(AcquireVm, SameDescriptionAgainIsFineAnotherIsEbusy) {
  const auto kfd = open_ready();
  const UniqueFd copy = render_fds_[0].dup().value();
  kfd_ioctl_acquire_vm_args args{};
  args.gpu_id = 0x1234;
  args.drm_fd = static_cast<std::uint32_t>(copy.get());
  EXPECT_EQ(ioctl<uapi::kfd::AcquireVm>(kfd, args), 0);
  const UniqueFd other = open_render();
  args.drm_fd = static_cast<std::uint32_t>(other.get());
  EXPECT_EQ(ioctl<uapi::kfd::AcquireVm>(kfd, args), -EBUSY);
}

}  // namespace
}  // namespace understudy::kfd::testing
