// RESOURCE_CREATE_BLOB in every size that is about, and user memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/virtio_gpu/guest_machine.h"

namespace understudy::virtio_gpu::test {
namespace {

constexpr std::uint32_t kGuest = guest_abi::VIRTGPU_BLOB_MEM_GUEST;
constexpr std::uint32_t kHost = guest_abi::VIRTGPU_BLOB_MEM_HOST3D;
constexpr std::uint32_t kHostGuest = guest_abi::VIRTGPU_BLOB_MEM_HOST3D_GUEST;
constexpr std::uint32_t kMappable = guest_abi::VIRTGPU_BLOB_FLAG_USE_MAPPABLE;
constexpr std::uint32_t kCrossDevice = guest_abi::VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE;
constexpr std::uint32_t kUserptr = guest_abi::VIRTGPU_BLOB_FLAG_USE_USERPTR;
constexpr std::uint32_t kReadOnly = 0x10;
constexpr std::uint32_t kSvm = 0x20;
constexpr std::uint64_t kPage = 4096;

GuestOptions series(std::string kernel = "userptr-v5", std::string more = "") {
  return {
      .request = "gl,blob,context_init,hostmem=64M" + more, .kernel = std::move(kernel), .device = "series"};
}

// The struct as the longest user spells it; the size says which kernel it is for.
struct BlobRequest72 {
  guest_abi::drm_virtgpu_resource_create_blob args{};
  std::uint64_t tail = 0;
};

int create(GuestMachine& guest, variants::userptr_v4::drm_virtgpu_resource_create_blob& args) {
  return guest.ioctl<variants::userptr_v4::ResourceCreateBlob>(args);
}

variants::userptr_v4::drm_virtgpu_resource_create_blob blob(std::uint32_t mem, std::uint32_t flags,
                                                            std::uint64_t size, std::uint64_t userptr = 0) {
  variants::userptr_v4::drm_virtgpu_resource_create_blob args{};
  args.blob_mem = mem;
  args.blob_flags = flags;
  args.size = size;
  args.userptr = userptr;
  return args;
}

// Anonymous memory of the test process.
struct UserMemory {
  explicit UserMemory(std::size_t pages, int protection = PROT_READ | PROT_WRITE)
      : size(pages * kPage),
        bytes(static_cast<std::uint8_t*>(
            ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~UserMemory() { ::munmap(bytes, size); }
  std::uint64_t address(std::uint64_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(bytes) + offset;
  }
  const std::size_t size;
  std::uint8_t* const bytes;
};

TEST(CreateBlob, VerificationFailuresAreEinvalInAnyKernel) {
  const auto expect_einval = [](GuestMachine& guest, auto args, const char* what) {
    EXPECT_EQ(create(guest, args), -EINVAL) << what;
  };
  GuestMachine no_blobs({.request = "gl", .kernel = "userptr-v5"});
  expect_einval(no_blobs, blob(kGuest, 0, kPage), "no feature");
  GuestMachine flat({.request = "2d,blob", .kernel = "userptr-v5"});
  expect_einval(flat, blob(kHost, 0, kPage), "host memory without 3D");
  expect_einval(flat, blob(kHostGuest, 0, kPage), "host memory without 3D");
  auto args = blob(kGuest, 0, kPage);
  EXPECT_EQ(create(flat, args), 0);

  GuestMachine guest(series());
  expect_einval(guest, blob(0, 0, kPage), "no memory kind");
  expect_einval(guest, blob(4, 0, kPage), "no such memory kind");
  expect_einval(guest, blob(kGuest, 0x20, kPage), "unknown flag");
  expect_einval(guest, blob(kGuest, kCrossDevice, kPage), "no UUIDs");
  args = blob(kGuest, 0, kPage);
  args.blob_id = 1;
  expect_einval(guest, args, "guest memory has no blob id");
  args = blob(kGuest, 0, kPage);
  args.cmd_size = 4;
  expect_einval(guest, args, "guest memory has no command");
  args = blob(kHost, 0, kPage);
  args.cmd_size = 6;
  expect_einval(guest, args, "half a word");
  args = blob(kHost, 0, kPage);
  args.cmd_size = 8;
  args.cmd = 8;
  EXPECT_EQ(create(guest, args), -EFAULT);
}

TEST(CreateBlob, SizeZeroFindsNoPlaceAndPadIsNotLookedAt) {
  GuestMachine guest(series());
  auto args = blob(kGuest, 0, 0);
  EXPECT_EQ(create(guest, args), -ENOSPC);
  args = blob(kHost, 0, 0);
  EXPECT_EQ(create(guest, args), -ENOSPC);
  args = blob(kGuest, 0, kPage);
  args.pad = 77;
  EXPECT_EQ(create(guest, args), 0);
}

TEST(CreateBlob, HugeSizesAreRefused) {
  GuestMachine guest(series());
  for (const std::uint64_t size : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 41}) {
    auto args = blob(kGuest, 0, size);
    EXPECT_EQ(create(guest, args), -ENOSPC) << size;
    args = blob(kHost, kMappable, size);
    EXPECT_EQ(create(guest, args), -ENOSPC) << size;
  }
  auto args = blob(kGuest, 0, std::uint64_t{16} << 30);
  EXPECT_EQ(create(guest, args), -ENOMEM) << "more than the guest has";
  EXPECT_EQ(guest.live(ObjectKind::kResource), 0u);
}

TEST(CreateBlob, MapsIntoTheWindowWhileThereIsRoom) {
  GuestMachine guest(series());
  auto args = blob(kHost, kMappable, 48 << 20);
  ASSERT_EQ(create(guest, args), 0);
  const std::uint32_t first = args.bo_handle;
  args = blob(kHost, kMappable, 32 << 20);
  EXPECT_EQ(create(guest, args), -ENOSPC);
  args = blob(kHost, 0, 32 << 20);
  EXPECT_EQ(create(guest, args), 0) << "not mappable, no room needed";
  ASSERT_EQ(guest.close_handle(first), 0);
  args = blob(kHost, kMappable, 32 << 20);
  EXPECT_EQ(create(guest, args), 0);

  GuestMachine no_window(series("userptr-v5", ",hostmem=0"));
  args = blob(kHost, kMappable, kPage);
  EXPECT_EQ(create(no_window, args), -EINVAL);
}

TEST(CreateBlob, HostRefusalShowsWhenItIsMapped) {
  GuestMachine guest(series());  // contexts here have no host memory to give
  auto args = blob(kHost, kMappable, kPage);
  ASSERT_EQ(create(guest, args), 0);
  std::uint64_t offset = 0;
  ASSERT_EQ(guest.map_offset(args.bo_handle, offset), 0);
  EXPECT_EQ(guest.client.mmap(guest.file, kPage, PROT_READ, offset), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CreateBlob, GuestBlobIsSeenByProcessAndDevice) {
  GuestMachine guest(series());
  auto args = blob(kGuest, kMappable, 3 * kPage + 1);
  ASSERT_EQ(create(guest, args), 0);
  guest_abi::drm_virtgpu_resource_info info{args.bo_handle, 0, 0, 0};
  ASSERT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), 0);
  EXPECT_EQ(info.size, 4 * kPage);
  EXPECT_EQ(info.blob_mem, kGuest);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 1u);
  guest_abi::drm_virtgpu_3d_transfer_to_host transfer{};
  transfer.bo_handle = args.bo_handle;
  EXPECT_EQ(guest.ioctl<guest_abi::TransferToHost>(transfer), -EINVAL) << "nothing to transfer";
  guest_abi::drm_virtgpu_3d_transfer_from_host back{};
  back.bo_handle = args.bo_handle;
  EXPECT_EQ(guest.ioctl<guest_abi::TransferFromHost>(back), -EINVAL);
}

TEST(BlobSizes, EachKernelTakesEveryCallersStruct) {
  for (const char* kernel :
       {"6.1", "6.12", "upstream", "userptr-v5", "userptr-late", "reference", "rocm-2026"}) {
    for (const std::uint32_t size : {48u, 56u, 64u, 72u}) {
      GuestMachine guest(series(kernel));
      BlobRequest72 request;
      request.args.blob_mem = kGuest;
      request.args.size = kPage;
      request.tail = 0x1234;
      const std::uint32_t command = (guest_abi::ResourceCreateBlob::kCmd & ~0x3fff0000u) | size << 16;
      EXPECT_EQ(guest.ioctl_number(command, &request), 0) << kernel << " " << size;
      EXPECT_EQ(request.args.bo_handle, 1u) << kernel << " " << size;
      EXPECT_EQ(request.tail, 0x1234u) << "what the kernel does not know comes back as it went";
    }
  }
}

TEST(BlobSizes, Offset48IsAUserPointerOrHints) {
  UserMemory memory(1);
  BlobRequest72 request;
  request.args.blob_mem = kGuest;
  request.args.size = kPage;
  request.args.blob_userptr = memory.address();
  request.args.blob_flags = kUserptr;
  const auto run = [&](const char* kernel) {
    GuestMachine guest(series(kernel));
    return guest.ioctl_number(guest_abi::ResourceCreateBlob::kCmd, &request);
  };
  EXPECT_EQ(run("userptr-v5"), 0);
  EXPECT_EQ(run("reference"), 0);
  EXPECT_EQ(run("rocm-2026"), 0);
  EXPECT_EQ(run("upstream"), -EINVAL);
  EXPECT_EQ(run("6.12"), -EINVAL);
  request.args.blob_flags = 0;
  request.args.blob_userptr = 1;  // DEFER_MAPPING
  EXPECT_EQ(run("upstream"), 0);
  EXPECT_EQ(run("6.12"), 0) << "beyond its struct";
  EXPECT_EQ(run("userptr-v5"), -EINVAL) << "a pointer without the flag";
  request.args.blob_userptr = 2;
  EXPECT_EQ(run("upstream"), -EINVAL) << "no such hint";
}

TEST(Userptr, FlagsAndPointerMustAgree) {
  GuestMachine guest(series());
  UserMemory memory(1);
  auto args = blob(kGuest, kUserptr, kPage, 0);
  EXPECT_EQ(create(guest, args), -EINVAL);
  args = blob(kGuest, 0, kPage, memory.address());
  EXPECT_EQ(create(guest, args), -EINVAL);
  args = blob(kGuest, kReadOnly, kPage, 0);
  EXPECT_EQ(create(guest, args), -EINVAL);
  args = blob(kGuest, kUserptr, kPage, memory.address());
  EXPECT_EQ(create(guest, args), 0);
}

TEST(Userptr, RangeIsCheckedAndNothingStaysPinned) {
  GuestMachine guest(series());
  ASSERT_EQ(guest.context_init({}), 0);
  UserMemory memory(4);
  ::munmap(memory.bytes + 2 * kPage, kPage);
  struct Row {
    std::uint64_t address, size;
    int result;
    const char* what;
  };
  const Row rows[] = {
      {memory.address(), 0, -EINVAL, "size 0"},
      {memory.address(), 3 * kPage, -EFAULT, "a hole"},
      {memory.address(2 * kPage), kPage, -EFAULT, "unmapped"},
      {8, kPage, -EFAULT, "the null page"},
      {std::uint64_t{1} << 47, kPage, -EFAULT, "not user space"},
      {memory.address(), ~std::uint64_t{0}, -EFAULT, "wraps around"},
      {memory.address(), std::uint64_t{1} << 40, -EFAULT, "far too long"},
  };
  for (const Row& row : rows) {
    auto args = blob(kHostGuest, kUserptr, row.size, row.address);
    EXPECT_EQ(create(guest, args), row.result) << row.what;
  }
  EXPECT_EQ(guest.live(ObjectKind::kUserptr), 0u);
  EXPECT_EQ(guest.live(ObjectKind::kResource), 0u);
  EXPECT_EQ(guest.gpu->memory().placement_count(), 2u);
}

TEST(Userptr, ReadOnlyMemoryNeedsTheReadOnlyFlag) {
  GuestMachine guest(series());
  UserMemory memory(1, PROT_READ);
  auto args = blob(kGuest, kUserptr, kPage, memory.address());
  EXPECT_EQ(create(guest, args), -EFAULT);
  args = blob(kGuest, kUserptr | kReadOnly, kPage, memory.address());
  EXPECT_EQ(create(guest, args), 0);
  UserMemory nothing(1, PROT_NONE);
  args = blob(kGuest, kUserptr | kReadOnly, kPage, nothing.address());
  EXPECT_EQ(create(guest, args), -EFAULT);
}

TEST(Userptr, WholePagesArePinnedForAnUnalignedRange) {
  GuestMachine guest(series());
  UserMemory memory(4);
  auto args = blob(kGuest, kUserptr, 2 * kPage, memory.address(100));
  ASSERT_EQ(create(guest, args), 0);
  guest_abi::drm_virtgpu_resource_info info{args.bo_handle, 0, 0, 0};
  ASSERT_EQ(guest.ioctl<guest_abi::ResourceInfo>(info), 0);
  EXPECT_EQ(info.size, 3 * kPage);
  EXPECT_EQ(guest.gpu->device_model().resource_count(), 1u) << "the host accepts: entries cover the size";
}

TEST(Userptr, TheSameRangeTwiceIsTwoObjects) {
  GuestMachine guest(series());
  UserMemory memory(1);
  auto first = blob(kGuest, kUserptr, kPage, memory.address());
  auto second = first;
  ASSERT_EQ(create(guest, first), 0);
  ASSERT_EQ(create(guest, second), 0);
  EXPECT_NE(first.bo_handle, second.bo_handle);
  EXPECT_NE(first.res_handle, second.res_handle);
  EXPECT_EQ(guest.live(ObjectKind::kUserptr), 2u);
}

TEST(Userptr, CannotBeMappedOrExported) {
  GuestMachine guest(series());
  UserMemory memory(1);
  auto args = blob(kGuest, kUserptr, kPage, memory.address());
  ASSERT_EQ(create(guest, args), 0);
  std::uint64_t offset = 77;
  EXPECT_EQ(guest.map_offset(args.bo_handle, offset), 0);
  EXPECT_EQ(offset, 0u);
  EXPECT_EQ(guest.client.mmap(guest.file, kPage, PROT_READ, offset), MAP_FAILED);
  uapi::drm::drm_prime_handle prime{args.bo_handle, 0, -1};
  EXPECT_EQ(guest.ioctl<uapi::drm::PrimeHandleToFd>(prime), -EINVAL);
}

TEST(Userptr, ManyEntriesAreFineWithoutTheOldLimit) {
  constexpr std::size_t kPages = 131'072;  // 512 MiB
  UserMemory memory(kPages);
  for (const bool limited : {false, true}) {
    GuestOptions options = series();
    if (limited) options.scatter_entries = 16384;
    GuestMachine guest(options);
    auto args = blob(kGuest, kUserptr, kPages * kPage, memory.address());
    ASSERT_EQ(create(guest, args), 0) << "the ioctl does not learn of it";
    EXPECT_EQ(guest.gpu->device_model().resource_count(), limited ? 0u : 1u);
    EXPECT_EQ(guest.close_handle(args.bo_handle), 0);
    EXPECT_EQ(guest.live(ObjectKind::kUserptr), 0u);
    EXPECT_EQ(guest.gpu->memory().placement_count(), 2u);
  }
}

TEST(UserptrLate, WantsWholePages) {
  GuestMachine guest(series("userptr-late"));
  UserMemory memory(2);
  auto args = blob(kGuest, kUserptr, kPage, memory.address(1));
  EXPECT_EQ(create(guest, args), -EINVAL);
  args = blob(kGuest, kUserptr, kPage - 1, memory.address());
  EXPECT_EQ(create(guest, args), -EINVAL);
  args = blob(kGuest, kUserptr, ~std::uint64_t{0} & ~(kPage - 1), memory.address());
  EXPECT_EQ(create(guest, args), -EINVAL);
}

TEST(UserptrLate, CountsAgainstTheMemoryLockLimit) {
  // A child may lower its limit; the parent's stays.
  const pid_t child = ::fork();
  if (child == 0) {
    int failures = 0;
    const rlimit limit{2 * kPage, 2 * kPage};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    GuestMachine guest(series("userptr-late"));
    const bool may_exceed = guest.client.caller().client->has_capability(14);  // CAP_IPC_LOCK
    UserMemory memory(4);
    auto first = blob(kGuest, kUserptr, 2 * kPage, memory.address());
    auto second = blob(kGuest, kUserptr, kPage, memory.address(2 * kPage));
    failures += create(guest, first) != 0;
    failures += create(guest, second) != (may_exceed ? 0 : -ENOMEM);
    failures += guest.close_handle(first.bo_handle) != 0;
    failures += create(guest, second) != 0;
    const rlimit nothing{0, 0};
    ::setrlimit(RLIMIT_MEMLOCK, &nothing);
    failures += create(guest, second) != (may_exceed ? 0 : -EPERM);
    ::_exit(failures);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

int create_64(GuestMachine& guest, guest_abi::drm_virtgpu_resource_create_blob& args) {
  return guest.ioctl<guest_abi::ResourceCreateBlob>(args);
}

guest_abi::drm_virtgpu_resource_create_blob blob_64(std::uint64_t address, std::uint64_t size) {
  guest_abi::drm_virtgpu_resource_create_blob args{};
  args.blob_mem = kHostGuest;
  args.blob_flags = kUserptr;
  args.size = size;
  args.blob_userptr = address;
  args.offset = 99;
  return args;
}

TEST(UserptrDeduplicated, ARangeInsideAnotherIsThatOther) {
  GuestMachine guest(series("reference"));
  UserMemory memory(8);
  auto whole = blob_64(memory.address(kPage), 4 * kPage);
  ASSERT_EQ(create_64(guest, whole), 0);
  EXPECT_EQ(whole.offset, 99) << "untouched for a new object";
  auto inside = blob_64(memory.address(3 * kPage + 5), 100);
  EXPECT_EQ(create_64(guest, inside), 1);
  EXPECT_EQ(inside.bo_handle, whole.bo_handle);
  EXPECT_EQ(inside.res_handle, whole.res_handle);
  EXPECT_EQ(inside.offset, static_cast<std::int64_t>(2 * kPage));
  auto across = blob_64(memory.address(4 * kPage), 2 * kPage);
  EXPECT_EQ(create_64(guest, across), 0);
  EXPECT_NE(across.bo_handle, whole.bo_handle);

  ASSERT_EQ(guest.close_handle(whole.bo_handle), 0) << "one close for both users";
  auto again = blob_64(memory.address(kPage), kPage);
  EXPECT_EQ(create_64(guest, again), 0);
}

TEST(UserptrDeduplicated, NewestRocmKernelsDoItForSvmOnly) {
  GuestMachine guest(series("rocm-2026"));
  UserMemory memory(2);
  variants::rocm_2026::drm_virtgpu_resource_create_blob args{};
  args.blob_mem = kHostGuest;
  args.size = kPage;
  args.blob_flags = kUserptr;
  args.blob_userptr = memory.address();
  EXPECT_EQ(guest.ioctl<variants::rocm_2026::ResourceCreateBlob>(args), 0);
  EXPECT_EQ(guest.ioctl<variants::rocm_2026::ResourceCreateBlob>(args), 0);
  args.blob_flags = kSvm;
  args.blob_userptr = 0;
  args.blob_svm = memory.address(kPage);
  EXPECT_EQ(guest.ioctl<variants::rocm_2026::ResourceCreateBlob>(args), 0);
  EXPECT_EQ(guest.ioctl<variants::rocm_2026::ResourceCreateBlob>(args), 1);
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
