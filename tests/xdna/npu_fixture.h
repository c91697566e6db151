// A machine with one NPU (npu4 unless asked otherwise) and the test process as its client.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "sim/xdna/assemble.h"
#include "sim/xdna/xdna_file.h"
#include "tests/support/test_client.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"

namespace understudy::xdna {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint32_t kNoSuchHandle = 4711;
inline constexpr std::uint64_t kBadPointer = 8;

class NpuTest : public testing::Test {
 protected:
  explicit NpuTest(Settings settings = {}, const std::string& profile = "npu4")
      : machine_(std::move(settings)) {
    auto loaded = load_npu_profile(profile, {PROFILE_DIRECTORY});
    if (auto* complaint = std::get_if<std::string>(&loaded)) {
      ADD_FAILURE() << *complaint;
      std::abort();
    }
    add_npus(machine_, {std::get<NpuProfile>(loaded)});
    file_ = client_.open("accel/accel0");
  }

  // Handle, or -errno.
  int create_bo(std::uint32_t type, std::uint64_t size, std::uint64_t vaddr = 0, std::uint64_t flags = 0) {
    return create_bo_in(file_, type, size, vaddr, flags);
  }
  int create_bo_in(const FileRef& file, std::uint32_t type, std::uint64_t size, std::uint64_t vaddr = 0,
                   std::uint64_t flags = 0) {
    uapi::amdxdna::amdxdna_drm_create_bo args{flags, vaddr, size, type, 0};
    const int result = client_.ioctl<uapi::amdxdna::CreateBo>(file, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }
  uapi::amdxdna::amdxdna_drm_get_bo_info info(std::uint32_t handle) {
    uapi::amdxdna::amdxdna_drm_get_bo_info args{};
    args.handle = handle;
    EXPECT_EQ(client_.ioctl<uapi::amdxdna::GetBoInfo>(file_, args), 0);
    return args;
  }
  int close_bo(std::uint32_t handle) { return close_bo_in(file_, handle); }
  int close_bo_in(const FileRef& file, std::uint32_t handle) {
    uapi::drm::drm_gem_close args{handle, 0};
    return client_.ioctl<uapi::drm::GemClose>(file, args);
  }
  std::byte* map_bo(std::uint32_t handle, std::uint64_t size) {
    void* address = client_.mmap(file_, size, PROT_READ | PROT_WRITE, info(handle).map_offset);
    EXPECT_NE(address, MAP_FAILED) << std::strerror(errno);
    return static_cast<std::byte*>(address);
  }
  // A mapped heap of one chunk; its address.
  std::byte* make_heap() {
    const int heap = create_bo(uapi::amdxdna::AMDXDNA_BO_DEV_HEAP, 64 * kMiB);
    EXPECT_GT(heap, 0);
    heap_handle_ = static_cast<std::uint32_t>(heap);
    return map_bo(heap_handle_, 64 * kMiB);
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

  Machine machine_;
  test::TestClient client_{machine_};
  FileRef file_;
  std::uint32_t heap_handle_ = 0;
};

}  // namespace understudy::xdna
