// GEM ioctls of the render node. Expected values: facts/kfd.md D.3 to D.5, amdgpu_gem.c.
#include <array>

#include "tests/kfd/render/render_fixture.h"
#include "tests/support/child_process.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

constexpr std::uint64_t kVram = AMDGPU_GEM_DOMAIN_VRAM, kGtt = AMDGPU_GEM_DOMAIN_GTT;
constexpr std::uint64_t kAlwaysSet = AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE;

class RenderGem : public RenderTest {
 protected:
  using RenderTest::RenderTest;
  int gem_op(std::uint32_t handle, std::uint32_t op, std::uint64_t value, std::uint32_t* count = nullptr) {
    drm_amdgpu_gem_op args{handle, op, value, count != nullptr ? *count : 0, 0};
    const int result = client_.ioctl<GemOp>(file_, args);
    if (count != nullptr) *count = args.num_entries;
    return result;
  }
  drm_amdgpu_gem_create_in create_info(std::uint32_t handle) {
    drm_amdgpu_gem_create_in info{};
    EXPECT_EQ(gem_op(handle, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, reinterpret_cast<std::uint64_t>(&info)), 0);
    return info;
  }
};

TEST_F(RenderGem, CreateRoundsSizeAndAlignmentUpToPages) {
  const int handle = create_bo(5000, kVram, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, 1);
  ASSERT_EQ(handle, 1);
  const drm_amdgpu_gem_create_in info = create_info(1);
  EXPECT_EQ(info.bo_size, 2 * kPage);
  EXPECT_EQ(info.alignment, kPage);
  EXPECT_EQ(info.domains, kVram);
  EXPECT_EQ(info.domain_flags, kAlwaysSet) << "CPU access is only a hint, and forgotten";
}

TEST_F(RenderGem, CreateChecksFlagsAndDomains) {
  EXPECT_EQ(create_bo(kPage, kGtt, std::uint64_t{1} << 40), -EINVAL);
  EXPECT_EQ(create_bo(kPage, std::uint64_t{1} << 20), -EINVAL);
  EXPECT_EQ(create_bo(kPage, kVram | AMDGPU_GEM_DOMAIN_GDS), -EINVAL);
  EXPECT_EQ(create_bo(kPage, kGtt | AMDGPU_GEM_DOMAIN_OA), -EINVAL);
  EXPECT_EQ(create_bo(kPage, AMDGPU_GEM_DOMAIN_DOORBELL), -EINVAL);
  EXPECT_EQ(create_bo(kPage, AMDGPU_GEM_DOMAIN_GDS, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID), -EINVAL);
  EXPECT_EQ(create_bo(kPage, AMDGPU_GEM_DOMAIN_GWS), -ENOMEM);
  EXPECT_EQ(create_bo(kPage, kVram, AMDGPU_GEM_CREATE_ENCRYPTED), -EINVAL);
}

TEST_F(RenderGem, CreateChecksTheSize) {
  EXPECT_EQ(create_bo(0), -EINVAL);
  EXPECT_EQ(create_bo(~std::uint64_t{0}), -EINVAL);
  EXPECT_EQ(create_bo(std::uint64_t{1} << 50, kVram), -ENOMEM);
  EXPECT_EQ(create_bo(std::uint64_t{1} << 50, kGtt), -ENOMEM);
}

TEST_F(RenderGem, VramFallsBackToGtt) {
  const std::uint64_t vram = gpu().vram_size_bytes();
  ASSERT_GT(create_bo(vram - 64 * kMiB, kVram), 0);
  const int handle = create_bo(256 * kMiB, kVram);
  ASSERT_GT(handle, 0);
  EXPECT_EQ(create_info(static_cast<std::uint32_t>(handle)).domains, kVram | kGtt);
  EXPECT_EQ(gpu().gtt_used_bytes(), 256 * kMiB);
}

TEST_F(RenderGem, MemoryIsAccountedUntilTheLastHandleIsClosed) {
  const std::uint64_t before = gpu().vram_used_bytes();
  const int handle = create_bo(8 * kMiB, kVram);
  EXPECT_EQ(gpu().vram_used_bytes(), before + 8 * kMiB);
  EXPECT_EQ(close_bo(static_cast<std::uint32_t>(handle)), 0);
  EXPECT_EQ(gpu().vram_used_bytes(), before);
}

TEST_F(RenderGem, MmapShowsThePages) {
  const auto handle = static_cast<std::uint32_t>(create_bo(2 * kPage));
  std::byte* pages = map_cpu(handle, 2 * kPage);
  EXPECT_EQ(pages[0], std::byte{0});
  pages[kPage] = std::byte{0x5a};
  EXPECT_EQ(mmap_offset(handle), mmap_offset(handle));
  std::array<std::byte, 1> read{};
  EXPECT_EQ(bo(handle)->read_pages(kPage, read), 1u);
  EXPECT_EQ(read[0], std::byte{0x5a});
  ::munmap(pages, 2 * kPage);
}

TEST_F(RenderGem, MmapRefusesUnknownUserptrAndHiddenBos) {
  EXPECT_EQ(mmap_offset(kNoSuchHandle), -ENOENT);
  EXPECT_EQ(mmap_offset(static_cast<std::uint32_t>(create_bo(kPage, kVram, AMDGPU_GEM_CREATE_NO_CPU_ACCESS))),
            -EPERM);
  const UserPages pages(kPage);
  const int userptr = create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER);
  EXPECT_EQ(mmap_offset(static_cast<std::uint32_t>(userptr)), -EPERM);
  EXPECT_EQ(
      client_.mmap(file_, kPage, PROT_READ, bo(static_cast<std::uint32_t>(userptr))->mmap_offset_bytes()),
      MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(RenderGem, PrivateMappingsAreOnlyForReservations) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage));
  const auto offset = static_cast<std::uint64_t>(mmap_offset(handle));
  EXPECT_EQ(client_.mmap(file_, kPage, PROT_READ, offset, MAP_PRIVATE), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  void* reserved = client_.mmap(file_, kPage, PROT_NONE, offset, MAP_PRIVATE);
  EXPECT_NE(reserved, MAP_FAILED);
  ::munmap(reserved, kPage);
}

TEST_F(RenderGem, UserptrChecksItsArguments) {
  const UserPages pages(2 * kPage);
  constexpr std::uint32_t kRegister = AMDGPU_GEM_USERPTR_REGISTER;
  EXPECT_EQ(create_userptr(pages.address() + 1, kPage, kRegister), -EINVAL);
  EXPECT_EQ(create_userptr(pages.address(), 100, kRegister), -EINVAL);
  EXPECT_EQ(create_userptr(pages.address(), kPage, kRegister | 16), -EINVAL);
  EXPECT_EQ(create_userptr(pages.address(), kPage, 0), -EACCES);
  EXPECT_EQ(create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_VALIDATE), -EACCES);
  EXPECT_EQ(create_userptr(pages.address(), 0, kRegister), -EOVERFLOW);
  EXPECT_EQ(create_userptr(~(kPage - 1), 2 * kPage, kRegister), -EOVERFLOW);
  EXPECT_GT(create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_READONLY), 0);
}

TEST_F(RenderGem, UserptrLooksAtThePagesOnlyWhenAskedTo) {
  const UserPages read_only(kPage, PROT_READ);
  const UserPages nothing(kPage, PROT_NONE);
  constexpr std::uint32_t kRegister = AMDGPU_GEM_USERPTR_REGISTER;
  constexpr std::uint32_t kValidate = kRegister | AMDGPU_GEM_USERPTR_VALIDATE;
  EXPECT_GT(create_userptr(0x10000, kPage, kRegister), 0);
  EXPECT_EQ(create_userptr(0x10000, kPage, kValidate), -EFAULT);
  EXPECT_EQ(create_userptr(nothing.address(), kPage, kValidate), -EFAULT);
  EXPECT_EQ(create_userptr(read_only.address(), kPage, kValidate), -EPERM);
  EXPECT_GT(create_userptr(read_only.address(), kPage, kValidate | AMDGPU_GEM_USERPTR_READONLY), 0);
}

TEST_F(RenderGem, AnonymousOnlyUserptrRefusesFiles) {
  const int memfd = ::memfd_create("pages", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(memfd, kPage), 0);
  const UserPages file(kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memfd);
  const UserPages anonymous(kPage);
  ::close(memfd);
  constexpr std::uint32_t kFlags =
      AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_ANONONLY;
  EXPECT_EQ(create_userptr(file.address(), kPage, kFlags), -EPERM);
  EXPECT_GT(create_userptr(anonymous.address(), kPage, kFlags), 0);
}

TEST_F(RenderGem, UserptrIsTheClientsMemory) {
  const UserPages pages(2 * kPage);
  const auto handle =
      static_cast<std::uint32_t>(create_userptr(pages.address(), 2 * kPage, AMDGPU_GEM_USERPTR_REGISTER));
  pages.bytes()[kPage] = std::byte{7};
  std::array<std::byte, 1> byte{};
  EXPECT_EQ(bo(handle)->read_pages(kPage, byte), 1u);
  EXPECT_EQ(byte[0], std::byte{7});
  byte[0] = std::byte{9};
  EXPECT_EQ(bo(handle)->write_pages(5, byte), 1u);
  EXPECT_EQ(pages.bytes()[5], std::byte{9});
  EXPECT_EQ(create_info(handle).domains, kGtt);
  EXPECT_EQ(export_bo(handle), -EPERM);
}

TEST_F(RenderGem, AlwaysValidBosCannotBeExported) {
  EXPECT_EQ(export_bo(static_cast<std::uint32_t>(create_bo(kPage, kVram, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))),
            -EPERM);
}

TEST_F(RenderGem, ImportTwiceGivesTheSameHandleAndObject) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage, kVram));
  const int fd = export_bo(handle);
  ASSERT_GE(fd, 0);
  const FileRef other = client_.open("dri/renderD128");
  EXPECT_EQ(import_bo_in(other, fd), 1);
  EXPECT_EQ(import_bo_in(other, fd), 1);
  EXPECT_EQ(amdgpu(other).lookup_bo(1).value(), bo(handle));
  EXPECT_EQ(import_bo_in(file_, fd), static_cast<int>(handle));
  ::close(fd);
}

TEST_F(RenderGem, GemOpChecksItsArguments) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage));
  EXPECT_EQ(gem_op(kNoSuchHandle, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, 0), -ENOENT);
  EXPECT_EQ(gem_op(handle, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, kBadPointer), -EFAULT);
  EXPECT_EQ(gem_op(handle, 99, 0), -EINVAL);
  drm_amdgpu_gem_op padded{handle, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, 0, 0, 1};
  EXPECT_EQ(client_.ioctl<GemOp>(file_, padded), -EINVAL);
}

TEST_F(RenderGem, PlacementChangesWhatIsPreferred) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage, kVram));
  EXPECT_EQ(gem_op(handle, AMDGPU_GEM_OP_SET_PLACEMENT, kGtt | AMDGPU_GEM_DOMAIN_GDS), 0);
  EXPECT_EQ(create_info(handle).domains, kGtt);
  const UserPages pages(kPage);
  const int userptr = create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER);
  EXPECT_EQ(gem_op(static_cast<std::uint32_t>(userptr), AMDGPU_GEM_OP_SET_PLACEMENT, kGtt), -EPERM);
}

TEST_F(RenderGem, MappingInfoListsTheMappingsOfThisFile) {
  const auto handle = static_cast<std::uint32_t>(create_bo(2 * kPage));
  ASSERT_EQ(map_va(handle, kVa, kPage, kPage), 0);
  ASSERT_EQ(map_va(handle, kVa + kMiB, 2 * kPage, 0, AMDGPU_VM_PAGE_READABLE), 0);
  std::array<drm_amdgpu_gem_vm_entry, 4> entries{};
  std::uint32_t count = entries.size();
  const auto address = reinterpret_cast<std::uint64_t>(entries.data());
  ASSERT_EQ(gem_op(handle, AMDGPU_GEM_OP_GET_MAPPING_INFO, address, &count), 0);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(entries[0].addr, kVa);
  EXPECT_EQ(entries[0].size, kPage);
  EXPECT_EQ(entries[0].offset, kPage);
  EXPECT_EQ(entries[1].addr, kVa + kMiB);
  EXPECT_EQ(entries[1].flags, AMDGPU_VM_PAGE_READABLE);
  count = 0;
  ASSERT_EQ(gem_op(handle, AMDGPU_GEM_OP_GET_MAPPING_INFO, 0, &count), 0);
  EXPECT_EQ(count, 2u) << "how much room is needed";
}

TEST_F(RenderGem, MetadataIsKeptWithTheBo) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage, kVram));
  drm_amdgpu_gem_metadata args{};
  args.handle = handle;
  args.op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
  args.data.flags = 5;
  args.data.tiling_info = 0x1234;
  args.data.data_size_bytes = 8;
  args.data.data[1] = 0xabcd;
  ASSERT_EQ(client_.ioctl<GemMetadata>(file_, args), 0);

  args = {};
  args.handle = handle;
  args.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
  args.data.data[2] = 77;
  ASSERT_EQ(client_.ioctl<GemMetadata>(file_, args), 0);
  EXPECT_EQ(args.data.flags, 5u);
  EXPECT_EQ(args.data.tiling_info, 0x1234u);
  EXPECT_EQ(args.data.data_size_bytes, 8u);
  EXPECT_EQ(args.data.data[1], 0xabcdu);
  EXPECT_EQ(args.data.data[2], 77u) << "beyond the data nothing is written";
}

TEST_F(RenderGem, MetadataChecksItsArguments) {
  drm_amdgpu_gem_metadata args{};
  args.handle = kNoSuchHandle;
  args.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
  EXPECT_EQ(client_.ioctl<GemMetadata>(file_, args), -ENOENT);
  args.handle = static_cast<std::uint32_t>(create_bo(kPage));
  args.op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
  args.data.data_size_bytes = 257;
  EXPECT_EQ(client_.ioctl<GemMetadata>(file_, args), -EINVAL);
  args.op = 99;
  EXPECT_EQ(client_.ioctl<GemMetadata>(file_, args), 0) << "any other operation does nothing";
}

TEST_F(RenderGem, WaitIdleTellsWhetherAFenceIsPending) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage));
  const auto wait = [&](std::uint32_t which, std::uint64_t timeout, drm_amdgpu_gem_wait_idle& args) {
    args.in = {which, 0, timeout};
    return client_.start(file_, GemWaitIdle::kCmd, reinterpret_cast<std::uint64_t>(&args));
  };
  drm_amdgpu_gem_wait_idle args{};
  EXPECT_EQ(wait(kNoSuchHandle, 0, args)->wait(), -ENOENT);
  EXPECT_EQ(wait(handle, 0, args)->wait(), 0);
  EXPECT_EQ(args.out.status, 0u);

  const auto fence = std::make_shared<drm::Fence>();
  bo(handle)->reservation().add(fence);
  EXPECT_EQ(wait(handle, 0, args)->wait(), 0);
  EXPECT_EQ(args.out.status, 1u);
  auto timed = wait(handle, clock_->now_ns() + 1000, args);
  EXPECT_FALSE(timed->answered());
  clock_->advance(1000);
  EXPECT_EQ(timed->wait(), 0);
  EXPECT_EQ(args.out.status, 1u);
  auto interrupted = wait(handle, ~std::uint64_t{0}, args);
  interrupted->cancel();
  EXPECT_EQ(interrupted->wait(), -EINTR);
  auto endless = wait(handle, ~std::uint64_t{0}, args);
  EXPECT_FALSE(endless->answered());
  fence->signal();
  EXPECT_EQ(endless->wait(), 0);
  EXPECT_EQ(args.out.status, 0u);
}

TEST_F(RenderGem, ListHandlesTellsWhatEachHandleIs) {
  create_bo(kPage, kVram);
  const UserPages pages(kPage);
  create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER);
  std::array<drm_amdgpu_gem_list_handles_entry, 4> entries{};
  drm_amdgpu_gem_list_handles args{reinterpret_cast<std::uint64_t>(entries.data()), entries.size(), 0};
  ASSERT_EQ(client_.ioctl<GemListHandles>(file_, args), 0);
  EXPECT_EQ(args.num_entries, 2u);
  EXPECT_EQ(entries[0].gem_handle, 1u);
  EXPECT_EQ(entries[0].size, kPage);
  EXPECT_EQ(entries[0].preferred_domains, kVram);
  EXPECT_EQ(entries[0].alloc_flags, kAlwaysSet);
  EXPECT_EQ(entries[1].gem_handle, 2u);
  args = {0, 0, 0};
  ASSERT_EQ(client_.ioctl<GemListHandles>(file_, args), 0);
  EXPECT_EQ(args.num_entries, 2u);
  args = {0, 0, 1};
  EXPECT_EQ(client_.ioctl<GemListHandles>(file_, args), -EINVAL);
  args = {kBadPointer, 4, 0};
  EXPECT_EQ(client_.ioctl<GemListHandles>(file_, args), -EFAULT);
}

class TwoGpus : public RenderGem {
 protected:
  TwoGpus() : RenderGem("gfx90a", {}, 2) {}
};

TEST_F(TwoGpus, AnotherGpusBoIsAnImportThatCannotMoveToVram) {
  const auto handle = static_cast<std::uint32_t>(create_bo(kPage, kVram));
  const int fd = export_bo(handle);
  const FileRef other = client_.open("dri/renderD129");
  ASSERT_EQ(import_bo_in(other, fd), 1);
  drm_amdgpu_gem_op place{1, AMDGPU_GEM_OP_SET_PLACEMENT, kVram, 0, 0};
  EXPECT_EQ(client_.ioctl<GemOp>(other, place), -EINVAL);
  std::array<drm_amdgpu_gem_list_handles_entry, 1> entries{};
  drm_amdgpu_gem_list_handles list{reinterpret_cast<std::uint64_t>(entries.data()), 1, 0};
  ASSERT_EQ(client_.ioctl<GemListHandles>(other, list), 0);
  EXPECT_EQ(entries[0].flags, AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT);
  ::close(fd);
}

}  // namespace
}  // namespace understudy::kfd
