// Command submissions through libdrm_amdgpu: copies by the DMA ring between VRAM, GTT and the program's own
// memory, with fences, syncobjs and sync_files.
#include <poll.h>

#include "drm_client.h"

namespace {

constexpr std::uint64_t kForEver = AMDGPU_TIMEOUT_INFINITE;

class Submitter {
 public:
  explicit Submitter(const Device& device) : device_(device), ib_(device, kPage, AMDGPU_GEM_DOMAIN_GTT) {
    CHECK(amdgpu_cs_ctx_create(device, &context_) == 0);
  }
  ~Submitter() { CHECK(amdgpu_cs_ctx_free(context_) == 0); }
  Submitter(const Submitter&) = delete;

  // A linear copy, as SDMA of every generation takes it.
  amdgpu_cs_fence copy(const MappedBo& from, const MappedBo& to, std::uint32_t bytes) {
    const std::uint32_t packet[] = {
        1, bytes - 1, 0, low(from.address()), high(from.address()), low(to.address()), high(to.address())};
    std::memcpy(ib_.bytes(), packet, sizeof packet);
    amdgpu_bo_handle bos[] = {ib_.handle(), from.handle(), to.handle()};
    amdgpu_bo_list_handle list = nullptr;
    CHECK(amdgpu_bo_list_create(device_, 3, bos, nullptr, &list) == 0);
    amdgpu_cs_ib_info ib{};
    ib.ib_mc_address = ib_.address();
    ib.size = sizeof packet / 4;
    amdgpu_cs_request request{};
    request.ip_type = AMDGPU_HW_IP_DMA;
    request.number_of_ibs = 1;
    request.ibs = &ib;
    request.resources = list;
    CHECK(amdgpu_cs_submit(context_, 0, &request, 1) == 0);
    CHECK(amdgpu_bo_list_destroy(list) == 0);
    amdgpu_cs_fence fence{};
    fence.context = context_;
    fence.ip_type = AMDGPU_HW_IP_DMA;
    fence.fence = request.seq_no;
    return fence;
  }
  void wait(amdgpu_cs_fence fence) {
    std::uint32_t expired = 0;
    CHECK(amdgpu_cs_query_fence_status(&fence, kForEver, 0, &expired) == 0);
    CHECK(expired == 1);
  }

 private:
  static std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
  static std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

  const Device& device_;
  MappedBo ib_;
  amdgpu_context_handle context_ = nullptr;
};

void copies_arrive(const Device& device, Submitter& submitter) {
  constexpr std::uint32_t kBytes = 2 * kMiB - 3;
  const MappedBo vram(device, 2 * kMiB, AMDGPU_GEM_DOMAIN_VRAM);
  const MappedBo gtt(device, 2 * kMiB, AMDGPU_GEM_DOMAIN_GTT);
  for (std::uint32_t i = 0; i < kBytes; ++i) gtt.bytes()[i] = static_cast<std::uint8_t>(i * 7);
  submitter.wait(submitter.copy(gtt, vram, kBytes));
  CHECK(std::memcmp(gtt.bytes(), vram.bytes(), kBytes) == 0);
  CHECK(vram.bytes()[kBytes] == 0);
  bool busy = true;
  CHECK(amdgpu_bo_wait_for_idle(vram.handle(), kForEver, &busy) == 0);
  CHECK(!busy);
}

void user_memory_is_reached(const Device& device, Submitter& submitter) {
  auto* pages = static_cast<std::uint8_t*>(::aligned_alloc(kPage, kMiB));
  std::memset(pages, 0, kMiB);
  {
    const MappedBo user(device, pages, kMiB);
    const MappedBo vram(device, kMiB, AMDGPU_GEM_DOMAIN_VRAM);
    std::memset(vram.bytes(), 0x77, kMiB);
    submitter.wait(submitter.copy(vram, user, kMiB));
    CHECK(pages[0] == 0x77 && pages[kMiB - 1] == 0x77);
    std::memset(pages, 0x33, kMiB);
    submitter.wait(submitter.copy(user, vram, kMiB));
    CHECK(vram.bytes()[kMiB / 2] == 0x33);
  }
  std::free(pages);
}

void fences_become_objects(const Device& device, Submitter& submitter) {
  const MappedBo a(device, kPage, AMDGPU_GEM_DOMAIN_GTT);
  const MappedBo b(device, kPage, AMDGPU_GEM_DOMAIN_VRAM);
  amdgpu_cs_fence fence = submitter.copy(a, b, kPage);
  std::uint32_t handle = 0;
  CHECK(amdgpu_cs_fence_to_handle(device, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &handle) == 0);
  CHECK(amdgpu_cs_syncobj_wait(device, &handle, 1, INT64_MAX, 0, nullptr) == 0);
  int sync_file = -1;
  CHECK(amdgpu_cs_syncobj_export_sync_file(device, handle, &sync_file) == 0);
  pollfd poll{sync_file, POLLIN, 0};
  CHECK(::poll(&poll, 1, 10'000) == 1);
  std::uint32_t other = 0;
  CHECK(amdgpu_cs_create_syncobj(device, &other) == 0);
  CHECK(amdgpu_cs_syncobj_import_sync_file(device, other, sync_file) == 0);
  CHECK(amdgpu_cs_syncobj_wait(device, &other, 1, 0, 0, nullptr) == 0);
  ::close(sync_file);
  CHECK(amdgpu_cs_destroy_syncobj(device, other) == 0);
  CHECK(amdgpu_cs_destroy_syncobj(device, handle) == 0);

  amdgpu_cs_fence fences[] = {fence, submitter.copy(b, a, kPage)};
  std::uint32_t status = 0, first = 77;
  CHECK(amdgpu_cs_wait_fences(fences, 2, true, kForEver, &status, &first) == 0);
  CHECK(status == 1);
}

}  // namespace

int main() {
  const Device device;
  Submitter submitter(device);
  copies_arrive(device, submitter);
  user_memory_is_reached(device, submitter);
  fences_become_objects(device, submitter);
  std::puts("OK");
  return 0;
}
