// A machine with one GPU (gfx90a unless asked otherwise) and the test process as a client of its render node.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "sim/drm/syncobj.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/assemble.h"
#include "tests/support/test_client.h"
#include "uapi/amdgpu.h"
#include "uapi/drm.h"

namespace understudy::kfd {

inline constexpr std::uint32_t kNoSuchHandle = 4711;
inline constexpr std::uint32_t kNoSuchContext = 4711;
inline constexpr std::uint64_t kBadPointer = 8;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kVa = std::uint64_t{1} << 32;
inline constexpr std::uint32_t kReadWriteExecute = uapi::amdgpu::AMDGPU_VM_PAGE_READABLE |
                                                   uapi::amdgpu::AMDGPU_VM_PAGE_WRITEABLE |
                                                   uapi::amdgpu::AMDGPU_VM_PAGE_EXECUTABLE;

// Pages of the test process, from mmap.
class UserPages {
 public:
  explicit UserPages(std::size_t size_bytes, int protection = PROT_READ | PROT_WRITE,
                     int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : size_bytes_(size_bytes), address_(::mmap(nullptr, size_bytes, protection, flags, fd, 0)) {}
  ~UserPages() { ::munmap(address_, size_bytes_); }
  UserPages(const UserPages&) = delete;
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(address_); }
  std::byte* bytes() const { return static_cast<std::byte*>(address_); }

 private:
  const std::size_t size_bytes_;
  void* const address_;
};

class RenderTest : public testing::Test {
 protected:
  explicit RenderTest(const std::string& profile = "gfx90a", Settings settings = {}, unsigned gpu_count = 1)
      : clock_(new ManualClock),
        machine_(std::move(settings), std::unique_ptr<Clock>(clock_)),
        client_(machine_) {
    std::string why;
    auto loaded = load_gpu_profile(profile, {PROFILE_DIRECTORY}, &why);
    if (!loaded) {
      ADD_FAILURE() << why;
      std::abort();
    }
    GpuMachineRequest request;
    request.memory_bytes = std::uint64_t{64} << 30;
    request.gpus.assign(gpu_count, *loaded);
    EXPECT_EQ(add_gpus(machine_, std::move(request)), std::nullopt);
    file_ = client_.open("dri/renderD128");
  }

  AmdgpuFile& amdgpu(const FileRef& file) { return static_cast<AmdgpuFile&>(*file); }
  Gpu& gpu() { return amdgpu(file_).gpu(); }
  BoRef bo(std::uint32_t handle) { return amdgpu(file_).lookup_bo(handle).value(); }

  // A handle, or -errno.
  int create_bo(std::uint64_t size, std::uint64_t domains = uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT,
                std::uint64_t flags = 0, std::uint64_t alignment = 0) {
    return create_bo_in(file_, size, domains, flags, alignment);
  }
  int create_bo_in(const FileRef& file, std::uint64_t size,
                   std::uint64_t domains = uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT, std::uint64_t flags = 0,
                   std::uint64_t alignment = 0) {
    uapi::amdgpu::drm_amdgpu_gem_create args{};
    args.in = {size, alignment, domains, flags};
    const int result = client_.ioctl<uapi::amdgpu::GemCreate>(file, args);
    return result < 0 ? result : static_cast<int>(args.out.handle);
  }
  int create_userptr(std::uint64_t address, std::uint64_t size, std::uint32_t flags) {
    uapi::amdgpu::drm_amdgpu_gem_userptr args{address, size, flags, 0};
    const int result = client_.ioctl<uapi::amdgpu::GemUserptr>(file_, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }
  int close_bo(std::uint32_t handle) {
    uapi::drm::drm_gem_close args{handle, 0};
    return client_.ioctl<uapi::drm::GemClose>(file_, args);
  }
  int export_bo(std::uint32_t handle, std::uint32_t flags = O_CLOEXEC | O_RDWR) {
    uapi::drm::drm_prime_handle args{handle, flags, -1};
    const int result = client_.ioctl<uapi::drm::PrimeHandleToFd>(file_, args);
    return result < 0 ? result : args.fd;
  }
  int import_bo_in(const FileRef& file, int fd) {
    uapi::drm::drm_prime_handle args{0, 0, fd};
    const int result = client_.ioctl<uapi::drm::PrimeFdToHandle>(file, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }
  // An offset, or -errno.
  std::int64_t mmap_offset(std::uint32_t handle) {
    uapi::amdgpu::drm_amdgpu_gem_mmap args{};
    args.in.handle = handle;
    const int result = client_.ioctl<uapi::amdgpu::GemMmap>(file_, args);
    return result < 0 ? result : static_cast<std::int64_t>(args.out.addr_ptr);
  }
  std::byte* map_cpu(std::uint32_t handle, std::uint64_t size) {
    void* address =
        client_.mmap(file_, size, PROT_READ | PROT_WRITE, static_cast<std::uint64_t>(mmap_offset(handle)));
    EXPECT_NE(address, MAP_FAILED) << std::strerror(errno);
    return static_cast<std::byte*>(address);
  }
  int va(std::uint32_t operation, std::uint32_t handle, std::uint64_t address, std::uint64_t size,
         std::uint64_t offset = 0, std::uint32_t flags = kReadWriteExecute) {
    uapi::amdgpu::drm_amdgpu_gem_va args{};
    args.handle = handle;
    args.operation = operation;
    args.flags = flags;
    args.va_address = address;
    args.offset_in_bo = offset;
    args.map_size = size;
    return client_.ioctl<uapi::amdgpu::GemVa>(file_, args);
  }
  int map_va(std::uint32_t handle, std::uint64_t address, std::uint64_t size, std::uint64_t offset = 0,
             std::uint32_t flags = kReadWriteExecute) {
    return va(uapi::amdgpu::AMDGPU_VA_OP_MAP, handle, address, size, offset, flags);
  }
  // An id, or -errno.
  int make_context(std::int32_t priority = uapi::amdgpu::AMDGPU_CTX_PRIORITY_NORMAL) {
    uapi::amdgpu::drm_amdgpu_ctx args{};
    args.in = {uapi::amdgpu::AMDGPU_CTX_OP_ALLOC_CTX, 0, 0, priority};
    const int result = client_.ioctl<uapi::amdgpu::Ctx>(file_, args);
    return result < 0 ? result : static_cast<int>(args.out.alloc.ctx_id);
  }
  std::uint32_t make_syncobj(std::uint32_t flags = 0) {
    uapi::drm::drm_syncobj_create args{0, flags};
    EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjCreate>(file_, args), 0);
    return args.handle;
  }

  ManualClock* const clock_;
  Machine machine_;
  test::TestClient client_;
  FileRef file_;
};

}  // namespace understudy::kfd
