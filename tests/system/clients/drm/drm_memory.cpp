// Buffers through libdrm_amdgpu: allocation, device addresses, CPU maps, metadata, and export and import,
// also by a second open of the device.
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "drm_client.h"

namespace {

void device_answers(const Device& device) {
  amdgpu_gpu_info info{};
  CHECK(amdgpu_query_gpu_info(device, &info) == 0);
  CHECK(info.family_id != 0 && info.num_shader_engines > 0);
  CHECK(amdgpu_get_marketing_name(device) != nullptr);
  amdgpu_heap_info heap{};
  CHECK(amdgpu_query_heap_info(device, AMDGPU_GEM_DOMAIN_VRAM, 0, &heap) == 0);
  CHECK(heap.heap_size > 0);
  drm_amdgpu_info_hw_ip ip{};
  CHECK(amdgpu_query_hw_ip_info(device, AMDGPU_HW_IP_DMA, 0, &ip) == 0);
  CHECK(ip.available_rings != 0);
}

void usage_follows(const Device& device) {
  amdgpu_heap_info before{}, during{}, after{};
  CHECK(amdgpu_query_heap_info(device, AMDGPU_GEM_DOMAIN_VRAM, 0, &before) == 0);
  {
    const MappedBo bo(device, 16 * kMiB, AMDGPU_GEM_DOMAIN_VRAM);
    CHECK(amdgpu_query_heap_info(device, AMDGPU_GEM_DOMAIN_VRAM, 0, &during) == 0);
    std::memset(bo.bytes(), 0x5a, 16 * kMiB);
    CHECK(bo.bytes()[16 * kMiB - 1] == 0x5a);
  }
  CHECK(amdgpu_query_heap_info(device, AMDGPU_GEM_DOMAIN_VRAM, 0, &after) == 0);
  CHECK(during.heap_usage == before.heap_usage + 16 * kMiB);
  CHECK(after.heap_usage == before.heap_usage);
}

void metadata_travels(const Device& device) {
  const MappedBo bo(device, kPage, AMDGPU_GEM_DOMAIN_VRAM);
  amdgpu_bo_metadata set{};
  set.tiling_info = 0x1234;
  set.size_metadata = 8;
  set.umd_metadata[1] = 0xabcd;
  CHECK(amdgpu_bo_set_metadata(bo.handle(), &set) == 0);
  amdgpu_bo_info info{};
  CHECK(amdgpu_bo_query_info(bo.handle(), &info) == 0);
  CHECK(info.alloc_size == kPage);
  CHECK(info.metadata.tiling_info == 0x1234);
  CHECK(info.metadata.size_metadata == 8 && info.metadata.umd_metadata[1] == 0xabcd);
}

// The same dma-buf imported twice is one BO of libdrm's with one GEM handle.
void import_twice_is_one_bo(const Device& device) {
  const MappedBo bo(device, 2 * kPage, AMDGPU_GEM_DOMAIN_GTT);
  std::uint32_t fd = 0;
  CHECK(amdgpu_bo_export(bo.handle(), amdgpu_bo_handle_type_dma_buf_fd, &fd) == 0);
  amdgpu_bo_import_result first{}, second{};
  CHECK(amdgpu_bo_import(device, amdgpu_bo_handle_type_dma_buf_fd, fd, &first) == 0);
  CHECK(amdgpu_bo_import(device, amdgpu_bo_handle_type_dma_buf_fd, fd, &second) == 0);
  CHECK(first.buf_handle == bo.handle() && second.buf_handle == bo.handle());
  CHECK(first.alloc_size == 2 * kPage);
  CHECK(amdgpu_bo_free(first.buf_handle) == 0);
  CHECK(amdgpu_bo_free(second.buf_handle) == 0);
  bo.bytes()[0] = 1;
  ::close(static_cast<int>(fd));
}

// A second open of the node has handles of its own for the same pages.
void another_open_shares_pages(const Device& device) {
  const MappedBo bo(device, 2 * kPage, AMDGPU_GEM_DOMAIN_VRAM);
  std::uint32_t fd = 0;
  CHECK(amdgpu_bo_export(bo.handle(), amdgpu_bo_handle_type_dma_buf_fd, &fd) == 0);
  const int other = ::open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
  std::uint32_t first = 0, second = 0;
  CHECK(drmPrimeFDToHandle(other, static_cast<int>(fd), &first) == 0);
  CHECK(drmPrimeFDToHandle(other, static_cast<int>(fd), &second) == 0);
  CHECK(first == 1 && second == 1);
  drm_amdgpu_gem_mmap args{};
  args.in.handle = first;
  CHECK(drmCommandWriteRead(other, DRM_AMDGPU_GEM_MMAP, &args, sizeof args) == 0);
  void* pages = ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, other,
                       static_cast<off_t>(args.out.addr_ptr));
  CHECK(pages != MAP_FAILED);
  static_cast<std::uint8_t*>(pages)[kPage] = 42;
  CHECK(bo.bytes()[kPage] == 42);
  CHECK(drmCloseBufferHandle(other, first) == 0);
  CHECK(drmCloseBufferHandle(other, first) != 0 && errno == EINVAL);
  static_cast<std::uint8_t*>(pages)[0] = 43;
  CHECK(bo.bytes()[0] == 43);
  ::munmap(pages, 2 * kPage);
  ::close(other);

  CHECK(::lseek(static_cast<int>(fd), 0, SEEK_END) == static_cast<off_t>(2 * kPage));
  dma_buf_sync sync{DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW};
  CHECK(::ioctl(static_cast<int>(fd), DMA_BUF_IOCTL_SYNC, &sync) == 0);
  void* direct = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd), 0);
  CHECK(direct != MAP_FAILED);
  CHECK(static_cast<std::uint8_t*>(direct)[0] == 43);
  ::munmap(direct, kPage);
  ::close(static_cast<int>(fd));
}

void user_memory(const Device& device) {
  void* pages = ::aligned_alloc(kPage, 4 * kPage);
  {
    const MappedBo bo(device, pages, 4 * kPage);
    std::uint32_t fd = 0;
    CHECK(amdgpu_bo_export(bo.handle(), amdgpu_bo_handle_type_dma_buf_fd, &fd) != 0);
  }
  std::free(pages);
}

void render_nodes_refuse_what_is_for_masters(const Device& device) {
  drm_magic_t magic = 0;
  CHECK(drmGetMagic(device.fd(), &magic) == -EACCES);
  drm_gem_flink flink{1, 0};
  CHECK(drmIoctl(device.fd(), DRM_IOCTL_GEM_FLINK, &flink) == -1 && errno == EACCES);
}

}  // namespace

int main() {
  const Device device;
  device_answers(device);
  usage_follows(device);
  metadata_travels(device);
  import_twice_is_one_bo(device);
  another_open_shares_pages(device);
  user_memory(device);
  render_nodes_refuse_what_is_for_masters(device);
  std::puts("OK");
  return 0;
}
