// Gpu: one AMD GPU of the machine: identity, memory accounting, and the DRM device behind its render and
// primary nodes.
//
// Owner: Machine::keep. Units: bytes. Errors: reserve() returns ENOMEM. Thread-safety: all methods from any
// thread. Mirrors: struct amdgpu_device and struct kfd_node; amdgpu_amdkfd_gpuvm.c:
// amdgpu_amdkfd_reserve_mem_limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/drm/device.h"
#include "sim/kfd/amdgpu_bo.h"
#include "sim/kfd/profile.h"
#include "sim/kfd/render/stable_pstate.h"

namespace understudy::kfd {

// Where the GPU sits in the machine; decided when the machine is put together.
struct GpuPlacement {
  unsigned index = 0;          // among the GPUs
  unsigned topology_node = 0;  // number of its directory in nodes/
  std::uint16_t gpu_id = 0;    // unique, non-zero
  unsigned render_minor = 128;
  unsigned card_minor = 0;
  unsigned pci_domain = 0;
  unsigned pci_bus = 0;
  unsigned pci_device = 0;
  unsigned pci_function = 0;
  unsigned root_port_device = 0;  // on bus 0 of the same domain
  unsigned root_port_function = 0;
  bool is_behind_switch = false;  // a board with a bridge of its own: two buses between root port and GPU
  unsigned numa_node = 0;
  std::uint64_t hive_id = 0;
  unsigned index_in_hive = 0;  // xgmi.physical_node_id
  unsigned hive_size = 0;
  std::uint64_t unique_id = 0;
};

// Memory all GPUs share: system RAM for GTT and userptr (kfd_mem_limit).
struct SystemMemory {
  std::uint64_t limit_bytes = 0;      // GTT + userptr
  std::uint64_t ttm_limit_bytes = 0;  // GTT
  std::atomic<std::uint64_t> used_bytes{0};
  std::atomic<std::uint64_t> ttm_used_bytes{0};
};

class Gpu : public drm::Device {
 public:
  Gpu(Machine& machine, GpuProfile profile, GpuPlacement placement,
      std::shared_ptr<SystemMemory> system_memory, std::uint64_t total_vram_of_machine_bytes);
  ~Gpu() override;

  const GpuProfile& profile() const { return profile_; }
  const GpuPlacement& placement() const { return placement_; }
  std::uint32_t gpu_id() const { return placement_.gpu_id; }

  std::uint64_t vram_size_bytes() const { return vram_size_bytes_; }
  std::uint64_t vram_used_bytes() const { return vram_used_bytes_.load(); }
  std::uint64_t gtt_used_bytes() const { return gtt_used_bytes_.load(); }
  std::uint64_t gtt_size_bytes() const { return system_memory_->ttm_limit_bytes; }
  // KFD's VRAM allocations are GTT: an APU whose carve-out is smaller than its GTT
  // (amdgpu_device.apu_prefer_gtt).
  bool prefers_gtt() const { return profile_.is_apu && vram_size_bytes_ < gtt_size_bytes(); }
  // All VRAM is visible to the CPU (kfd_dev_is_large_bar).
  bool is_large_bar() const { return profile_.memory_heap_type == 1; }
  // AMDKFD_IOC_AVAILABLE_MEMORY's number (2 MiB granules, page-table reserve taken off).
  std::uint64_t available_memory_bytes();
  // "dri/renderD128"
  const std::string& render_node_path() const { return render_node_path_; }
  StablePstate& stable_pstate() { return stable_pstate_; }
  // The GPU's 100 MHz counter (AMDKFD_IOC_GET_CLOCK_COUNTERS, AMDGPU_INFO_TIMESTAMP, SDMA timestamps).
  std::uint64_t clock_counter() const;
  // A reset of the whole GPU (amdgpu_device.c: amdgpu_device_gpu_recover): what runs on it is lost, and with
  // `vram_lost` the contents of VRAM too. Observers are told afterwards, without locks.
  void reset(bool vram_lost);
  void on_reset(std::function<void(bool vram_lost)> observer);
  std::uint32_t reset_count() const { return reset_count_.load(); }
  std::uint32_t vram_lost_count() const { return vram_lost_count_.load(); }
  // Takes VRAM away until `bytes` are left for allocations (Limits::kNone: gives it back).
  void leave_vram(std::uint64_t bytes);

  // Accounts a BO's memory. ENOMEM.
  Result<void> reserve(BoKind kind, std::uint64_t size_bytes);
  // Gives a dying BO's memory back, as soon as no client has its pages mapped any more.
  void retire_bo(BoKind kind, BufferRef buffer, std::uint64_t size_bytes);

  // KFD's IMPORT_DMABUF, without a GEM handle.
  Result<BoRef> import_bo(Call& call, const DmaBufRef& dma_buf);

  std::span<const IoctlRow> driver_ioctls() const override;
  Result<drm::GemRef> import_dma_buf(Call& call, drm::DrmFile& file, const DmaBufRef& dma_buf) override;
  Result<void> object_opened(drm::DrmFile& file, drm::GemObject& object) override;
  void object_closed(drm::DrmFile& file, drm::GemObject& object) override;
  Result<MmapTarget> map_object(Call& call, drm::DrmFile& file, drm::GemObject& object,
                                const MmapRequest& request) override;
  Result<drm::GemRef> create_dumb(Call& call, drm::DrmFile& file,
                                  uapi::drm::drm_mode_create_dumb& args) override;

 private:
  friend class AmdgpuBo;
  // Pages of dead BOs that clients still map.
  struct RetiredBo {
    BoKind kind;
    BufferRef buffer;
    std::uint64_t size_bytes;
  };
  struct RetiredBos {
    std::mutex mutex;
    std::vector<RetiredBo> waiting;  // guarded by mutex
  };

  Result<void> try_reserve(BoKind kind, std::uint64_t size_bytes);
  void unreserve(BoKind kind, std::uint64_t size_bytes);
  // Returns whether any are left.
  bool sweep_retired();
  // The pages of VRAM BOs, to be lost in a reset.
  void remember_vram(const BufferRef& buffer);
  void forget_vram(const Buffer& buffer);

  const GpuProfile profile_;
  const GpuPlacement placement_;
  const std::string render_node_path_;
  const std::shared_ptr<SystemMemory> system_memory_;
  const std::uint64_t vram_size_bytes_;
  const std::uint64_t reserved_for_page_tables_bytes_;
  const std::shared_ptr<RetiredBos> retired_ = std::make_shared<RetiredBos>();
  StablePstate stable_pstate_;
  std::atomic<std::uint64_t> vram_used_bytes_{0};
  std::atomic<std::uint64_t> vram_rounded_bytes_{0};
  std::atomic<std::uint64_t> gtt_used_bytes_{0};
  std::atomic<std::uint32_t> reset_count_{0};
  std::atomic<std::uint32_t> vram_lost_count_{0};
  std::mutex reset_mutex_;
  std::vector<std::function<void(bool)>> reset_observers_;                 // guarded by reset_mutex_
  std::uint64_t taken_away_bytes_ = 0;                                     // guarded by reset_mutex_
  std::unordered_map<const Buffer*, std::weak_ptr<Buffer>> vram_buffers_;  // guarded by reset_mutex_
};

}  // namespace understudy::kfd
