// GPU memory of the KFD driver, in the three shapes the kernel has for it:
//
//   KfdMemory   a KFD handle: allocated, a registered user range, or imported with a fixed address. Bound
//   memory is mapped with
//               MAP_MEMORY_TO_GPU at that one address; unbound memory (vmem) through a GEM handle of the same
//               buffer.
//   GemMemory   a buffer imported without an address: a counted GEM handle in the owner's render file.
//
// The kernel has no call that turns a KFD handle into a GEM handle except exporting and importing; KfdMemory
// does that at most once in its life, on its own GPU, and lends the handle to every mapping there afterwards.
//
// Owner: the core, by shared_ptr. Thread-safe as Memory demands.
// Mirrors: drivers/gpu/drm/amd/amdgpu/amdgpu_amdkfd_gpuvm.c.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/driver/kfd/render_file.h"
#include "runtime/driver/memory.h"

namespace hsa_rt::kfd {

class KfdDevice;

// What the owner needs to map a buffer through GEM_VA.
class GemSource {
 public:
  virtual ~GemSource() = default;
  // The buffer's handle in its own GPU's render file.
  virtual Result<std::shared_ptr<GemRef>> own_gem() = 0;
};

class KfdMemory final : public Memory, public GemSource {
 public:
  struct Native {
    uint64_t handle = 0;
    uint64_t bound_address = 0;  // 0: mapped through GEM only
    uint64_t mmap_offset = 0;    // 0: only through its dma-buf
    bool cpu_visible = false;
  };

  KfdMemory(KfdDevice& device, uint64_t size_bytes, Placement placement, Native native);
  ~KfdMemory() override;

  Result<UniqueFd> export_dmabuf() const override;
  Result<CpuSource> cpu_source(uint64_t offset) const override;
  Result<std::shared_ptr<GemRef>> own_gem() override;

  uint64_t handle() const { return native_.handle; }
  uint64_t bound_address() const { return native_.bound_address; }

 protected:
  Result<void> close() override;

 private:
  KfdDevice& device_;
  const Native native_;
  bool open_ = true;
  std::mutex gem_lock_;
  std::shared_ptr<GemRef> gem_;
};

class GemMemory final : public Memory, public GemSource {
 public:
  GemMemory(KfdDevice& device, uint64_t size_bytes, Placement placement, std::shared_ptr<GemRef> gem,
            bool cpu_visible);

  Result<UniqueFd> export_dmabuf() const override;
  Result<CpuSource> cpu_source(uint64_t offset) const override;
  Result<std::shared_ptr<GemRef>> own_gem() override { return gem_; }

 protected:
  Result<void> close() override;

 private:
  KfdDevice& device_;
  std::shared_ptr<GemRef> gem_;
  const bool cpu_visible_;
};

// Mapped with MAP_MEMORY_TO_GPU at the address the memory was made for, on any GPU of the driver.
std::unique_ptr<Share> share_bound(KfdDevice& accessor, std::shared_ptr<KfdMemory> memory);

// Mapped with GEM_VA at any address of the accessor's GPU. `gem` is a handle in the accessor's render file.
std::unique_ptr<Share> share_gem(KfdDevice& accessor, std::shared_ptr<Memory> memory,
                                 std::shared_ptr<GemRef> gem, bool borrowed);

}  // namespace hsa_rt::kfd
