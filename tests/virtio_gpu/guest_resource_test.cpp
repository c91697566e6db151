// Resources, maps, transfers, waits, PRIME: the guest's buffer objects, against the facts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/virtio_gpu/guest_machine.h"

namespace understudy::virtio_gpu::test {
namespace {

const GuestOptions kGl{.request = "gl"};

TEST(ResourceCreate, NumbersStartBehindTheConsole) {
  GuestMachine guest;
  guest_abi::drm_virtgpu_resource_create args{};
  args.target = 2;
  args.format = 1;
  args.width = args.height = 16;
  ASSERT_EQ(guest.ioctl<guest_abi::ResourceCreate>(args), 0);
  EXPECT_EQ(args.bo_handle, 1u);
  EXPECT_EQ(args.res_handle, 3u);
  ASSERT_EQ(guest.close_handle(1), 0);
  ASSERT_EQ(guest.ioctl<guest_abi::ResourceCreate>(args), 0);
  EXPECT_EQ(args.bo_handle, 1u) << "handles are used again";
  EXPECT_EQ(args.res_handle, 4u) << "resource numbers are not";
}

TEST(ResourceCreate, TwoDimensionalDevicesAreParticular) {
  struct Row {
    std::uint32_t guest_abi::drm_virtgpu_resource_create::*field;
    std::uint32_t value;
    int result;
  };
  using Args = guest_abi::drm_virtgpu_resource_create;
  const Row rows[] = {{&Args::depth, 1, 0},        {&Args::depth, 2, -EINVAL},
                      {&Args::nr_samples, 1, 0},   {&Args::nr_samples, 2, -EINVAL},
                      {&Args::last_level, 1, 0},   {&Args::last_level, 2, -EINVAL},
                      {&Args::array_size, 1, 0},   {&Args::array_size, 2, -EINVAL},
                      {&Args::target, 1, -EINVAL}, {&Args::target, 3, -EINVAL}};
  for (const Row& row : rows) {
    for (const bool gl : {false, true}) {
      GuestMachine guest(gl ? kGl : GuestOptions{});
      Args args{};
      args.target = 2;
      args.format = 1;
      args.width = args.height = 16;
      args.*row.field = row.value;
      EXPECT_EQ(guest.ioctl<guest_abi::ResourceCreate>(args), gl ? 0 : row.result);
    }
  }
}

TEST(ResourceCreate, SizeZeroIsOnePageAndSizesAreRounded) {
  GuestMachine guest;
  for (const auto& [asked, given] : {std::pair{0u, 4096u}, {1u, 4096u}, {4097u, 8192u}}) {
    const std::uint32_t handle = guest.create_resource(asked);
    guest_abi::drm_virtgpu_resource_info info{};
    info.bo_handle = handle;
    info.blob_mem = 0xdead;
    ASSERT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), 0);
    EXPECT_EQ(info.size, given);
    EXPECT_EQ(info.blob_mem, 0xdeadu) << "written for blobs only";
  }
}

TEST(ResourceCreate, WhatTheHostRefusesIsNotSeenHere) {
  GuestMachine guest;
  guest_abi::drm_virtgpu_resource_create args{};
  args.target = 2;
  args.format = 9999;
  args.width = args.height = 16;
  EXPECT_EQ(guest.ioctl<guest_abi::ResourceCreate>(args), 0);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 0u);
  EXPECT_EQ(guest.wait(args.bo_handle), 0) << "the error answer carries the fence";
  EXPECT_EQ(guest.close_handle(args.bo_handle), 0);
}

TEST(ResourceCreate, MemoryOfTheGuestIsLimited) {
  GuestMachine guest({.system_bytes = 1 << 20});
  EXPECT_NE(guest.create_resource(512 << 10), 0u);
  EXPECT_EQ(guest.create_resource(600 << 10), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kResource), 1u);
}

TEST(ResourceInfo, UnknownHandleIsEnoent) {
  GuestMachine guest;
  guest_abi::drm_virtgpu_resource_info info{};
  EXPECT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), -ENOENT);
  info.bo_handle = kNoSuchHandle;
  EXPECT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), -ENOENT);
}

TEST(Map, UnknownHandleIsEnoent) {
  GuestMachine guest;
  std::uint64_t offset = 0;
  EXPECT_EQ(guest.map_offset(0, offset), -ENOENT);
  EXPECT_EQ(guest.map_offset(kNoSuchHandle, offset), -ENOENT);
}

TEST(Mmap, FollowsTheRulesOfShmem) {
  GuestMachine guest;
  const std::uint32_t handle = guest.create_resource(8192);
  std::uint64_t offset = 0;
  ASSERT_EQ(guest.map_offset(handle, offset), 0);
  EXPECT_GE(offset, 0x1'0000'0000u);
  EXPECT_EQ(offset % 4096, 0u);
  void* part = guest.client.mmap(guest.file, 4096, PROT_READ | PROT_WRITE, offset);
  EXPECT_NE(part, MAP_FAILED);
  ::munmap(part, 4096);
  EXPECT_EQ(guest.client.mmap(guest.file, 12288, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(guest.client.mmap(guest.file, 8192, PROT_READ, offset, MAP_PRIVATE), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(guest.client.mmap(guest.file, 8192, PROT_READ, 0x1000), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  const FileRef other = guest.client.open("dri/renderD128");
  EXPECT_EQ(guest.client.mmap(other, 8192, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
}

TEST(Mmap, OutlivesTheHandle) {
  GuestMachine guest;
  const std::uint32_t handle = guest.create_resource();
  std::uint64_t offset = 0;
  ASSERT_EQ(guest.map_offset(handle, offset), 0);
  auto* bytes = static_cast<char*>(guest.client.mmap(guest.file, 4096, PROT_READ | PROT_WRITE, offset));
  ASSERT_EQ(guest.close_handle(handle), 0);
  bytes[0] = 1;
  EXPECT_EQ(bytes[0], 1);
  ::munmap(bytes, 4096);
}

guest_abi::drm_virtgpu_3d_transfer_to_host transfer_of(std::uint32_t handle) {
  guest_abi::drm_virtgpu_3d_transfer_to_host args{};
  args.bo_handle = handle;
  args.box = {0, 0, 0, 16, 16, 1};
  return args;
}

TEST(Transfer, FromHostNeedsThirdDimensionBeforeAHandle) {
  GuestMachine flat;
  guest_abi::drm_virtgpu_3d_transfer_from_host args{};
  args.bo_handle = kNoSuchHandle;
  EXPECT_EQ(flat.ioctl<guest_abi::TransferFromHost>(args), -ENOSYS);
  GuestMachine deep(kGl);
  EXPECT_EQ(deep.ioctl<guest_abi::TransferFromHost>(args), -ENOENT);
}

TEST(Transfer, StrideIsForBlobsOnlyIn3dAndIgnoredIn2d) {
  GuestMachine flat;
  auto args = transfer_of(flat.create_resource());
  args.stride = 64;
  EXPECT_EQ(flat.ioctl<guest_abi::TransferToHost>(args), 0);
  args.bo_handle = kNoSuchHandle;
  EXPECT_EQ(flat.ioctl<guest_abi::TransferToHost>(args), -ENOENT);

  GuestMachine deep(kGl);
  args = transfer_of(deep.create_resource());
  EXPECT_EQ(deep.ioctl<guest_abi::TransferToHost>(args), 0);
  args.layer_stride = 64;
  EXPECT_EQ(deep.ioctl<guest_abi::TransferToHost>(args), -EINVAL);
}

TEST(Transfer, MovesPixelsThroughTheHostAndBack) {
  GuestMachine guest(kGl);
  const std::uint32_t handle = guest.create_resource();
  std::uint64_t offset = 0;
  ASSERT_EQ(guest.map_offset(handle, offset), 0);
  auto* bytes =
      static_cast<std::uint8_t*>(guest.client.mmap(guest.file, 4096, PROT_READ | PROT_WRITE, offset));
  std::memset(bytes, 0x5a, 1024);
  auto args = transfer_of(handle);
  ASSERT_EQ(guest.ioctl<guest_abi::TransferToHost>(args), 0);
  ASSERT_EQ(guest.wait(handle), 0);
  std::memset(bytes, 0, 1024);
  guest_abi::drm_virtgpu_3d_transfer_from_host back{};
  back.bo_handle = handle;
  back.box = {0, 0, 0, 16, 16, 1};
  ASSERT_EQ(guest.ioctl<guest_abi::TransferFromHost>(back), 0);
  ASSERT_EQ(guest.wait(handle), 0);
  EXPECT_EQ(bytes[0], 0x5a);
  EXPECT_EQ(bytes[1023], 0x5a);
  ::munmap(bytes, 4096);
}

TEST(Wait, UnknownHandleIsEnoentAndUnknownFlagsAreIgnored) {
  GuestMachine guest;
  EXPECT_EQ(guest.wait(0), -ENOENT);
  EXPECT_EQ(guest.wait(kNoSuchHandle), -ENOENT);
  EXPECT_EQ(guest.wait(guest.create_resource(), 0xfffffffe), 0);
}

class LosesAnswers : public FaultHook {
 public:
  FaultDecision before(Call&) override { return {}; }
  Outcome after(Call&, Outcome outcome, std::size_t*) override { return outcome; }
  void replied(const Call&) override {}
  PointDecision at(FaultPoint, std::string_view, const Client*) override { return PointDecision::kDrop; }
};

TEST(Wait, BusyObjectIsEbusyAtOnceOrAfterFifteenSeconds) {
  GuestMachine guest(kGl);
  guest.machine.hooks().install(std::make_shared<LosesAnswers>());
  const std::uint32_t handle = guest.create_resource();
  EXPECT_EQ(guest.wait(handle, guest_abi::VIRTGPU_WAIT_NOWAIT), -EBUSY);
  guest_abi::drm_virtgpu_3d_wait args{handle, 0};
  auto call = guest.client.start(guest.file, guest_abi::Wait::kCmd, reinterpret_cast<std::uint64_t>(&args));
  guest.clock->advance(14'999'000'000);
  EXPECT_FALSE(call->answered());
  guest.clock->advance(1'000'000);
  EXPECT_EQ(call->wait(), -EBUSY);
  call = guest.client.start(guest.file, guest_abi::Wait::kCmd, reinterpret_cast<std::uint64_t>(&args));
  call->cancel();
  EXPECT_EQ(call->wait(), -EINTR);
}

TEST(GemClose, SecondCloseIsEinval) {
  GuestMachine guest;
  const std::uint32_t handle = guest.create_resource();
  EXPECT_EQ(guest.close_handle(handle), 0);
  EXPECT_EQ(guest.close_handle(handle), -EINVAL);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 0u);
}

int export_handle(GuestMachine& guest, std::uint32_t handle, std::uint32_t flags, int& fd) {
  uapi::drm::drm_prime_handle args{handle, flags, -1};
  const int result = guest.ioctl<uapi::drm::PrimeHandleToFd>(args);
  fd = args.fd;
  return result;
}

TEST(Prime, OwnBufferComesBackAsTheSameObject) {
  GuestMachine guest(kGl);
  const std::uint32_t handle = guest.create_resource();
  int fd = -1;
  ASSERT_EQ(export_handle(guest, handle, O_CLOEXEC | O_RDWR, fd), 0);
  uapi::drm::drm_prime_handle back{0, 0, fd};
  ASSERT_EQ(guest.ioctl<uapi::drm::PrimeFdToHandle>(back), 0);
  EXPECT_EQ(back.handle, handle);

  const FileRef other = guest.client.open("dri/renderD128");
  ASSERT_EQ(guest.client.ioctl<uapi::drm::PrimeFdToHandle>(other, back), 0);
  EXPECT_EQ(back.handle, 1u);
  guest_abi::drm_virtgpu_resource_info mine{handle, 0, 0, 0}, theirs{back.handle, 0, 0, 0};
  ASSERT_EQ(guest.ioctl<guest_abi::ResourceInfo>(mine), 0);
  ASSERT_EQ(guest.client.ioctl<guest_abi::ResourceInfo>(other, theirs), 0);
  EXPECT_EQ(theirs.res_handle, mine.res_handle);
  ::close(fd);
  guest.client.close(guest.file);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 1u) << "the other file holds it";
  guest.client.close(other);
  guest.machine.sweep();
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 0u);
}

TEST(Prime, BadHandlesAndDescriptorsAreRefused) {
  GuestMachine guest;
  int fd = -1;
  EXPECT_EQ(export_handle(guest, kNoSuchHandle, 0, fd), -ENOENT);
  const int not_a_dma_buf = ::open("/dev/null", O_RDWR);
  uapi::drm::drm_prime_handle args{0, 0, not_a_dma_buf};
  EXPECT_EQ(guest.ioctl<uapi::drm::PrimeFdToHandle>(args), -EINVAL);
  ::close(not_a_dma_buf);
}

class ForeignExporter : public DmaBufExporter {};

TEST(Prime, ForeignBufferIsEnodevAndAGuestBlobInNewKernels) {
  for (const bool recent : {false, true}) {
    GuestMachine guest({.request = "2d,blob", .kernel = recent ? "upstream" : "6.12"});
    const BufferRef buffer = Buffer::create("foreign", 8192);
    auto dma_buf =
        guest.machine.dmabufs().export_buffer(nullptr, std::make_shared<ForeignExporter>(), buffer, true);
    UniqueFd fd = std::move(dma_buf.value()->open_descriptor().value());
    uapi::drm::drm_prime_handle args{0, 0, fd.get()};
    EXPECT_EQ(guest.ioctl<uapi::drm::PrimeFdToHandle>(args), recent ? 0 : -ENODEV);
    if (recent) {
      guest_abi::drm_virtgpu_resource_info info{args.handle, 0, 0, 0};
      ASSERT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), 0);
      EXPECT_EQ(info.size, 8192u);
      EXPECT_EQ(info.blob_mem, guest_abi::VIRTGPU_BLOB_MEM_GUEST);
    }
  }
}

TEST(Release, ReturnsEverythingAFileHad) {
  GuestMachine guest(kGl);
  for (int i = 0; i < 20; ++i) ASSERT_NE(guest.create_resource(), 0u);
  guest.client.close(guest.file);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kResource), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kGemHandle), 0u);
  EXPECT_EQ(guest.gpu->control().pending_count(), 0u);
  EXPECT_EQ(guest.gpu->memory().placement_count(), 2u) << "the ring and the command slots";
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
