// What the libdrm_amdgpu clients share: an initialised device, and a check that names what went wrong and
// ends the program. A client prints OK as its last line when everything was as expected.
#pragma once

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>
#include <unistd.h>
#include <xf86drm.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (false)

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Device {
 public:
  explicit Device(const char* node = "/dev/dri/renderD128") : fd_(::open(node, O_RDWR | O_CLOEXEC)) {
    CHECK(fd_ >= 0);
    std::uint32_t major = 0, minor = 0;
    CHECK(amdgpu_device_initialize(fd_, &major, &minor, &handle_) == 0);
    CHECK(major == 3);
  }
  ~Device() {
    CHECK(amdgpu_device_deinitialize(handle_) == 0);
    ::close(fd_);
  }
  Device(const Device&) = delete;
  operator amdgpu_device_handle() const { return handle_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  amdgpu_device_handle handle_ = nullptr;
};

// A BO with a device address, and a CPU mapping where it may have one.
class MappedBo {
 public:
  MappedBo(const Device& device, std::uint64_t size, std::uint32_t domain) : size_(size) {
    amdgpu_bo_alloc_request request{};
    request.alloc_size = size;
    request.phys_alignment = kPage;
    request.preferred_heap = domain;
    CHECK(amdgpu_bo_alloc(device, &request, &handle_) == 0);
    map(device);
    CHECK(amdgpu_bo_cpu_map(handle_, &cpu_) == 0);
  }
  // On the program's own pages.
  MappedBo(const Device& device, void* pages, std::uint64_t size) : size_(size) {
    CHECK(amdgpu_create_bo_from_user_mem(device, pages, size, &handle_) == 0);
    map(device);
  }
  ~MappedBo() {
    if (cpu_ != nullptr) CHECK(amdgpu_bo_cpu_unmap(handle_) == 0);
    CHECK(amdgpu_bo_va_op(handle_, 0, size_, address_, 0, AMDGPU_VA_OP_UNMAP) == 0);
    CHECK(amdgpu_va_range_free(range_) == 0);
    CHECK(amdgpu_bo_free(handle_) == 0);
  }
  MappedBo(const MappedBo&) = delete;

  amdgpu_bo_handle handle() const { return handle_; }
  std::uint64_t address() const { return address_; }
  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(cpu_); }
  std::uint32_t* dwords() const { return static_cast<std::uint32_t*>(cpu_); }

 private:
  void map(const Device& device) {
    CHECK(amdgpu_va_range_alloc(device, amdgpu_gpu_va_range_general, size_, kPage, 0, &address_, &range_,
                                0) == 0);
    CHECK(amdgpu_bo_va_op(handle_, 0, size_, address_, 0, AMDGPU_VA_OP_MAP) == 0);
  }

  const std::uint64_t size_;
  amdgpu_bo_handle handle_ = nullptr;
  amdgpu_va_handle range_ = nullptr;
  std::uint64_t address_ = 0;
  void* cpu_ = nullptr;
};
