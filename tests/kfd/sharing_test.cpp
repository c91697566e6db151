// Memory shared between processes, devices and drivers: dma-bufs, ROCm's IPC handles, copies between
// processes.
#include <signal.h>
#include <sys/wait.h>

#include "tests/kfd/kfd_fixture.h"
#include "uapi/kfd_rocm.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;
namespace rocm = uapi::kfd_rocm;

constexpr std::uint64_t kVa = 0x7000'0000'0000;
constexpr std::uint32_t kVram = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;

class Sharing : public KfdTest {
 protected:
  void SetUp() override {
    KfdTest::SetUp();
    kfd_ = open_ready();
  }
  struct Exported {
    int result = 0;
    UniqueFd fd;
    bool close_on_exec = false;
  };
  Exported export_dmabuf(std::uint64_t handle, std::uint32_t flags = O_CLOEXEC) {
    kfd_ioctl_export_dmabuf_args args{handle, flags, 0};
    Exported exported;
    exported.result = ioctl<ExportDmabuf>(kfd_, args);
    if (exported.result == 0) {
      HandedFd& handed = last_call_->handed_fds().at(0);
      EXPECT_EQ(handed.argument_offset, offsetof(kfd_ioctl_export_dmabuf_args, dmabuf_fd));
      exported.fd = std::move(handed.fd);
      exported.close_on_exec = handed.close_on_exec;
    }
    return exported;
  }
  struct Imported {
    int result = 0;
    std::uint64_t handle = 0;
  };
  Imported import_dmabuf(int fd, std::uint64_t va = kVa, std::uint32_t gpu_id = 0x1234) {
    kfd_ioctl_import_dmabuf_args args{va, 0, gpu_id, static_cast<std::uint32_t>(fd)};
    const int result = ioctl<ImportDmabuf>(kfd_, args);
    return {result, args.handle};
  }
  void restart(const std::vector<TestGpu>& gpus, Settings settings = {}) {
    kfd_.reset();
    render_files_.clear();
    render_fds_.clear();
    last_call_.reset();
    build(gpus, settings);
    kfd_ = open_ready();
  }
  std::shared_ptr<KfdFile> kfd_;
};

TEST_F(Sharing, ExportOfUnknownHandleIsEinval) {
  EXPECT_EQ(export_dmabuf(0x1234'0000'0007).result, -EINVAL);
  EXPECT_EQ(export_dmabuf(std::uint64_t{kNoSuchGpu} << 32).result, -EINVAL);
}

TEST_F(Sharing, UserptrCannotBeExported) {
  const Pages pages(kPage);
  const auto memory = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, kVa, pages.address());
  EXPECT_EQ(export_dmabuf(memory.handle).result, -EPERM);
}

TEST_F(Sharing, ExportTwiceIsOneDmaBuf) {
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  const auto first = export_dmabuf(memory.handle), second = export_dmabuf(memory.handle, 0);
  EXPECT_TRUE(first.close_on_exec);
  EXPECT_FALSE(second.close_on_exec);
  struct stat a {
  }, b{};
  ::fstat(first.fd.get(), &a);
  ::fstat(second.fd.get(), &b);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(machine_->ledger().live_count(ObjectKind::kDmaBuf), 1u);
}

TEST_F(Sharing, ReadOnlyMemoryIsExportedReadOnly) {
  const auto memory = alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, kPage, kVa);
  const auto exported = export_dmabuf(memory.handle);
  EXPECT_EQ(::fcntl(exported.fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(Sharing, SeekToTheEndTellsTheSize) {
  const auto exported = export_dmabuf(alloc(kfd_, kVram, 3 * kPage, kVa).handle);
  EXPECT_EQ(::lseek(exported.fd.get(), 0, SEEK_END), static_cast<off_t>(3 * kPage));
}

TEST_F(Sharing, ImportChecks) {
  const auto exported = export_dmabuf(alloc(kfd_, kVram, kPage, kVa).handle);
  EXPECT_EQ(import_dmabuf(exported.fd.get(), kVa, kNoSuchGpu).result, -EINVAL);
  EXPECT_EQ(import_dmabuf(9999).result, -EBADF);
  EXPECT_EQ(import_dmabuf(STDERR_FILENO).result, -EINVAL);
}

TEST_F(Sharing, DescriptorIsCheckedFirstBefore68) {
  Settings settings;
  settings.flavour.kfd_minor = 11;
  restart({TestGpu{}}, settings);
  EXPECT_EQ(import_dmabuf(9999, kVa, kNoSuchGpu).result, -EBADF);
}

TEST_F(Sharing, ImportTwiceGivesTwoHandlesOfOneBuffer) {
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  const auto exported = export_dmabuf(memory.handle);
  const auto first = import_dmabuf(exported.fd.get(), kVa + kMiB),
             second = import_dmabuf(exported.fd.get(), 0);
  EXPECT_EQ(first.result, 0);
  EXPECT_NE(first.handle, second.handle);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), kPage);
  EXPECT_EQ(map(kfd_, memory.handle, {0x1234}).result, 0);
  EXPECT_EQ(map(kfd_, first.handle, {0x1234}).result, 0);
  EXPECT_EQ(map(kfd_, second.handle, {0x1234}).result, -EINVAL);
  EXPECT_EQ(free(kfd_, second.handle), 0);
}

TEST_F(Sharing, DescriptorKeepsFreedMemory) {
  const std::uint64_t before = available(kfd_);
  const auto memory = alloc(kfd_, kVram, 2 * kMiB, kVa);
  auto exported = export_dmabuf(memory.handle);
  last_call_.reset();
  EXPECT_EQ(free(kfd_, memory.handle), 0);
  EXPECT_EQ(available(kfd_), before - 2 * kMiB);
  exported.fd.reset();
  EXPECT_EQ(available(kfd_), before);
}

TEST_F(Sharing, InfoSaysWhatItIs) {
  const auto memory = alloc(kfd_, kVram | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC, 2 * kPage, kVa);
  const auto exported = export_dmabuf(memory.handle);
  kfd_ioctl_get_dmabuf_info_args args{};
  args.dmabuf_fd = static_cast<std::uint32_t>(exported.fd.get());
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), 0);
  EXPECT_EQ(args.size, 2 * kPage);
  EXPECT_EQ(args.gpu_id, 0x1234u);
  EXPECT_EQ(args.flags, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
  EXPECT_EQ(args.metadata_size, 0u);
  args.dmabuf_fd = 9999;
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), -EBADF);
  args.dmabuf_fd = STDERR_FILENO;
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), -EINVAL);
}

TEST_F(Sharing, MetadataThatDoesNotFitSaysHowMuchThereIs) {
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  BoMetadata metadata;
  metadata.size_bytes = 100;
  metadata.data[99] = std::byte{9};
  kfd_->process().memory(KfdHandle::from(memory.handle))->bo()->set_metadata(metadata);
  const auto exported = export_dmabuf(memory.handle);
  std::byte buffer[256] = {};
  kfd_ioctl_get_dmabuf_info_args args{};
  args.dmabuf_fd = static_cast<std::uint32_t>(exported.fd.get());
  args.metadata_ptr = reinterpret_cast<std::uint64_t>(buffer);
  args.metadata_size = 64;
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), -EINVAL);
  EXPECT_EQ(args.metadata_size, 100u);
  EXPECT_EQ(args.size, kPage);
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), 0);
  EXPECT_EQ(buffer[99], std::byte{9});
  args.metadata_ptr = kBadPointer;
  EXPECT_EQ(ioctl<GetDmabufInfo>(kfd_, args), -EFAULT);
}

TEST_F(Sharing, AnotherGpusBufferIsImportedAsSystemMemory) {
  restart({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2}});
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  const auto exported = export_dmabuf(memory.handle);
  const auto imported = import_dmabuf(exported.fd.get(), kVa + kMiB, 2);
  ASSERT_EQ(imported.result, 0);
  EXPECT_EQ(map(kfd_, imported.handle, {2}).result, 0);
  EXPECT_EQ(gpus_[1]->vram_used_bytes(), 0u);
}

class Ipc : public Sharing {
 protected:
  rocm::kfd_ioctl_ipc_export_handle_args share(std::uint64_t handle, int expected = 0) {
    rocm::kfd_ioctl_ipc_export_handle_args args{};
    args.handle = handle;
    args.gpu_id = 0x1234;
    args.flags = 5;
    EXPECT_EQ(ioctl<rocm::IpcExportHandle>(kfd_, args), expected);
    return args;
  }
  rocm::kfd_ioctl_ipc_import_handle_args import(const std::uint32_t (&share_handle)[4], int expected = 0) {
    rocm::kfd_ioctl_ipc_import_handle_args args{};
    std::copy(std::begin(share_handle), std::end(share_handle), args.share_handle);
    args.gpu_id = 0x1234;
    args.va_addr = kVa + kMiB;
    EXPECT_EQ(ioctl<rocm::IpcImportHandle>(kfd_, args), expected);
    return args;
  }
};

TEST_F(Ipc, HandleIsStableAndImportable) {
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  const auto first = share(memory.handle), second = share(memory.handle);
  EXPECT_TRUE(std::equal(std::begin(first.share_handle), std::end(first.share_handle), second.share_handle));
  const auto imported = import(first.share_handle);
  EXPECT_EQ(imported.flags, 5u);
  EXPECT_EQ(imported.mmap_offset, memory.mmap_offset);
  EXPECT_EQ(map(kfd_, imported.handle, {0x1234}).result, 0);
  EXPECT_EQ(gpus_[0]->vram_used_bytes(), kPage);
}

TEST_F(Ipc, UnknownThingsAreEinval) {
  share(0x1234'0000'0007, -EINVAL);
  const std::uint32_t bogus[4] = {1, 2, 3, 4};
  import(bogus, -EINVAL);
}

TEST_F(Ipc, HandleDiesWithItsLastHolder) {
  const auto memory = alloc(kfd_, kVram, kPage, kVa);
  const auto shared = share(memory.handle);
  const auto imported = import(shared.share_handle);
  EXPECT_EQ(free(kfd_, memory.handle), 0);
  const auto again = import(shared.share_handle);
  EXPECT_EQ(free(kfd_, imported.handle), 0);
  EXPECT_EQ(free(kfd_, again.handle), 0);
  import(shared.share_handle, -EINVAL);
}

TEST_F(Ipc, UserptrCannotBeShared) {
  const Pages pages(kPage);
  share(alloc(kfd_, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, kPage, kVa, pages.address()).handle, -EPERM);
}

class CrossMemoryCopy : public Sharing {
 protected:
  int copy(std::uint32_t pid, std::vector<rocm::kfd_memory_range> from,
           std::vector<rocm::kfd_memory_range> to, std::uint64_t* copied = nullptr) {
    rocm::kfd_ioctl_cross_memory_copy_args args{};
    args.pid = pid;
    args.src_mem_range_array = reinterpret_cast<std::uint64_t>(from.data());
    args.src_mem_array_size = from.size();
    args.dst_mem_range_array = reinterpret_cast<std::uint64_t>(to.data());
    args.dst_mem_array_size = to.size();
    const int result = ioctl<rocm::CrossMemoryCopy>(kfd_, args);
    if (copied != nullptr) *copied = args.bytes_copied;
    return result;
  }
  const std::uint32_t me_ = static_cast<std::uint32_t>(::getpid());
};

TEST_F(CrossMemoryCopy, GathersAndScattersRanges) {
  const Pages source(2 * kPage), target(2 * kPage);
  constexpr std::uint32_t kUserptr = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  alloc(kfd_, kUserptr, 2 * kPage, kVa, source.address());
  alloc(kfd_, kUserptr, 2 * kPage, kVa + kMiB, target.address());
  for (int index = 0; index < 100; ++index) source.as<char>()[index] = static_cast<char>(index);
  std::uint64_t copied = 0;
  EXPECT_EQ(copy(me_, {{kVa + 10, 20}, {kVa + 50, 10}}, {{kVa + kMiB, 5}, {kVa + kMiB + 100, 25}}, &copied),
            0);
  EXPECT_EQ(copied, 30u);
  EXPECT_EQ(target.as<char>()[4], 14);
  EXPECT_EQ(target.as<char>()[100], 15);
  EXPECT_EQ(target.as<char>()[124], 59);
}

TEST_F(CrossMemoryCopy, Errors) {
  alloc(kfd_, kVram, kPage, kVa);
  EXPECT_EQ(copy(me_, {}, {{kVa, 1}}), -EINVAL);
  EXPECT_EQ(copy(0x7ffffff0, {{kVa, 1}}, {{kVa, 1}}), -ESRCH);
  EXPECT_EQ(copy(1, {{kVa, 1}}, {{kVa, 1}}), -EINVAL);
  EXPECT_EQ(copy(me_, {{kVa, 2 * kPage}}, {{kVa, 1}}), -EFAULT);
  rocm::kfd_ioctl_cross_memory_copy_args args{};
  args.src_mem_range_array = args.dst_mem_range_array = kBadPointer;
  args.src_mem_array_size = args.dst_mem_array_size = 1;
  EXPECT_EQ(ioctl<rocm::CrossMemoryCopy>(kfd_, args), -EFAULT);
  args.src_mem_array_size = ~std::uint64_t{0};
  EXPECT_EQ(ioctl<rocm::CrossMemoryCopy>(kfd_, args), -ENOMEM);
}

TEST_F(Sharing, FeaturesThatAreNotThereSaySo) {
  rocm::kfd_ioctl_pc_sample_args sample{};
  EXPECT_EQ(ioctl<rocm::PcSample>(kfd_, sample), -EOPNOTSUPP);
  rocm::kfd_ioctl_spm_args spm{};
  EXPECT_EQ(ioctl<rocm::RlcSpm>(kfd_, spm), -EINVAL);
}

}  // namespace
}  // namespace understudy::kfd::testing
