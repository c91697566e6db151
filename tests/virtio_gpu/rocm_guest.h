// RocmGuest: a guest whose program speaks vhsakmt as the guest's library does, over a host machine with GPUs.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sim/kfd/assemble.h"
#include "tests/virtio_gpu/guest_machine.h"
#include "uapi/vhsakmt.h"
#include "uapi/vhsakmt_variants.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu::test {

namespace vhsa = uapi::vhsakmt;
namespace later = uapi::vhsakmt::variants::host_mr1568;

inline std::shared_ptr<Machine> make_host_machine(unsigned gpu_count = 1) {
  auto host = std::make_shared<Machine>(Settings{});
  std::string why;
  const auto profile = kfd::load_gpu_profile("gfx90a", {PROFILES}, &why);
  EXPECT_TRUE(profile) << why;
  kfd::GpuMachineRequest request{.gpus = {gpu_count, *profile}};
  EXPECT_EQ(kfd::add_gpus(*host, std::move(request)), std::nullopt);
  return host;
}

struct RocmOptions {
  std::shared_ptr<Machine> host = make_host_machine();
  std::string kernel = "userptr-v5";
  std::string request = "rocm,hostmem=64G";
  std::uint64_t scatter_entries = Limits::kNone;
  bool strict = false;
};

class RocmGuest {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kShmemBytes = 16 * kPage;
  static constexpr std::uint32_t kCpuNode = 0, kGpuNode = 1;
  using CreateArgs = variants::userptr_v4::drm_virtgpu_resource_create_blob;

  explicit RocmGuest(RocmOptions options = {})
      : host(options.host),
        guest({.request = options.request,
               .kernel = options.kernel,
               .scatter_entries = options.scatter_entries,
               .strict = options.strict,
               .host = options.host}) {
    if (init() == 0) make_shmem();
  }
  ~RocmGuest() {
    if (shmem) ::munmap(shmem, kShmemBytes);
  }

  struct Resource {
    int result = 0;
    std::uint32_t handle = 0, id = 0;
  };
  Resource create_blob(std::uint64_t blob_id, std::uint64_t size_bytes,
                       std::uint32_t flags = guest_abi::VIRTGPU_BLOB_FLAG_USE_MAPPABLE,
                       std::uint64_t user_address = 0) {
    CreateArgs args{};
    args.blob_mem =
        user_address != 0 ? guest_abi::VIRTGPU_BLOB_MEM_HOST3D_GUEST : guest_abi::VIRTGPU_BLOB_MEM_HOST3D;
    args.blob_flags = flags;
    args.size = size_bytes;
    args.blob_id = blob_id;
    args.userptr = user_address;
    const int result = guest.ioctl<variants::userptr_v4::ResourceCreateBlob>(args);
    return {result, args.bo_handle, args.res_handle};
  }
  void* map(std::uint32_t handle, std::uint64_t size_bytes) {
    std::uint64_t offset = 0;
    const int result = guest.map_offset(handle, offset);
    if (result != 0) {
      errno = -result;
      return MAP_FAILED;
    }
    return guest.client.mmap(guest.file, size_bytes, PROT_READ | PROT_WRITE, offset);
  }

  int init() {
    return guest.context_init(
        {{guest_abi::VIRTGPU_CONTEXT_PARAM_CAPSET_ID, uapi::virtio_gpu_wire::VIRTIO_GPU_CAPSET_ROCM}});
  }
  void make_shmem() {
    const Resource made = create_blob(0, kShmemBytes);
    ASSERT_EQ(made.result, 0);
    shmem_handle = made.handle;
    void* const at = map(made.handle, kShmemBytes);
    ASSERT_NE(at, MAP_FAILED) << std::strerror(errno);
    shmem = static_cast<std::byte*>(at);
  }
  std::uint32_t word(std::size_t offset) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(shmem + offset)).load();
  }
  std::uint32_t seqno() const { return word(offsetof(later::vhsakmt_shmem, base.seqno)); }
  std::byte* slot(std::uint32_t rsp_off = 0) const {
    return shmem + word(offsetof(later::vhsakmt_shmem, base.rsp_mem_offset)) + rsp_off;
  }

  int submit(const void* bytes, std::size_t length) {
    guest_abi::drm_virtgpu_execbuffer args{};
    args.size = static_cast<std::uint32_t>(length);
    args.command = reinterpret_cast<std::uint64_t>(bytes);
    args.fence_fd = -1;
    const int result = guest.ioctl<guest_abi::Execbuffer>(args);
    if (result != 0) return result;
    return guest.wait(shmem_handle) == 0 ? 0 : -EIO;
  }
  // The whole of a call: `ret` of the answer, or kNoAnswer. `tail` follows the struct.
  static constexpr std::int32_t kNoAnswer = 0x7fff'ffff;
  template <typename Request, typename Response>
  std::int32_t call(std::uint32_t command, Request& request, Response& response,
                    const std::vector<std::uint32_t>& tail = {}) {
    std::vector<std::byte> bytes((sizeof request + tail.size() * sizeof tail[0] + 7) & ~std::size_t{7});
    request.hdr.cmd = command;
    request.hdr.len = static_cast<std::uint32_t>(bytes.size());
    request.hdr.seqno = ++last_seqno;
    request.hdr.rsp_off = 0;
    std::memcpy(bytes.data(), &request, sizeof request);
    if (!tail.empty()) std::memcpy(bytes.data() + sizeof request, tail.data(), tail.size() * sizeof tail[0]);
    const std::uint32_t room = sizeof response;
    std::memset(slot(), 0xcd, sizeof response + kPage);
    std::memcpy(slot(), &room, sizeof room);
    EXPECT_EQ(submit(bytes.data(), bytes.size()), 0);
    if (!reached(last_seqno)) return kNoAnswer;
    std::memcpy(&response, slot(), sizeof response);
    return response.ret;
  }
  // The queue is a thread of its own: a command that ends the stream never gets there.
  bool reached(std::uint32_t wanted) const {
    for (int i = 0; i < 60000 && seqno() != wanted; ++i) ::usleep(1000);
    return seqno() == wanted;
  }

  std::int32_t query(std::uint32_t type, later::vhsakmt_ccmd_query_info_rsp& response,
                     std::uint64_t argument = 0) {
    vhsa::vhsakmt_ccmd_query_info_req request{};
    request.type = type;
    request.pointer = argument;
    return call(vhsa::VHSAKMT_CCMD_QUERY_INFO, request, response);
  }
  std::int32_t memory(vhsa::vhsakmt_ccmd_memory_req& request, const std::vector<std::uint32_t>& tail = {}) {
    return call(vhsa::VHSAKMT_CCMD_MEMORY, request, memory_answer, tail);
  }
  std::int32_t memory(std::uint32_t type, std::uint64_t address, std::uint32_t resource_id = 0) {
    vhsa::vhsakmt_ccmd_memory_req request{};
    request.type = type;
    request.MemoryAddress = address;
    request.res_id = resource_id;
    return memory(request);
  }

  struct Memory {
    std::int32_t ret = 0;
    std::uint64_t address = 0;
    Resource resource;
    std::byte* bytes = nullptr;
  };
  // Memory of the host the guest can touch.
  std::int32_t allocate(std::uint64_t size_bytes, std::uint64_t blob_id, std::uint32_t node,
                        std::uint64_t& address, vhsa::HsaMemFlags flags = host_access()) {
    vhsa::vhsakmt_ccmd_memory_req request{};
    request.type = vhsa::VHSAKMT_CCMD_MEMORY_ALLOC;
    request.blob_id = blob_id;
    request.alloc_args.PreferredNode = node;
    request.alloc_args.SizeInBytes = size_bytes;
    request.alloc_args.MemFlags = flags;
    const std::int32_t ret = memory(request);
    address = memory_answer.memory_handle;
    return ret;
  }
  static vhsa::HsaMemFlags host_access() {
    vhsa::HsaMemFlags flags{};
    flags.ui32.HostAccess = 1;
    flags.ui32.NonPaged = 1;
    return flags;
  }
  Memory make_memory(std::uint64_t size_bytes, std::uint32_t node = kCpuNode) {
    Memory made;
    const std::uint64_t blob_id = ++last_blob_id;
    made.ret = allocate(size_bytes, blob_id, node, made.address);
    if (made.ret != 0) return made;
    made.resource = create_blob(blob_id, size_bytes);
    if (made.resource.result != 0) return made;
    void* const at = map(made.resource.handle, size_bytes);
    if (at != MAP_FAILED) made.bytes = static_cast<std::byte*>(at);
    return made;
  }
  std::int32_t map_to_gpu(std::uint64_t address, std::uint64_t size_bytes) {
    vhsa::vhsakmt_ccmd_memory_req request{};
    request.type = vhsa::VHSAKMT_CCMD_MEMORY_MAP_MEM_TO_GPU;
    request.map_to_GPU_args.MemoryAddress = address;
    request.map_to_GPU_args.MemorySizeInBytes = size_bytes;
    return memory(request);
  }

  const std::shared_ptr<Machine> host;
  GuestMachine guest;
  std::byte* shmem = nullptr;
  std::uint32_t shmem_handle = 0;
  std::uint32_t last_seqno = 0;
  std::uint64_t last_blob_id = 100;
  vhsa::vhsakmt_ccmd_memory_rsp memory_answer{};
};

}  // namespace understudy::virtio_gpu::test
