// ThunkMemory: the library's memory of one process: allocations, registered memory, what is mapped on which
// GPU.
//
// Owner: HostThunk. Units: bytes; addresses of the process. Errors: HsaStatus. Thread-safety: one thread at a
// time, but for openers, which may run on any. Mirrors: libhsakmt memory.c, fmm.c.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "sim/virtio_gpu/device/host_visible_region.h"
#include "sim/virtio_gpu/rocm/thunk/host_gpus.h"
#include "sim/virtio_gpu/rocm/thunk/status.h"
#include "sim/virtio_gpu/rocm/va_arena.h"

namespace understudy::virtio_gpu {

class ThunkMemory {
 public:
  enum class Kind : std::uint8_t { kVram, kHost, kUser, kScratch, kReserved };

  struct Allocation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    Kind kind = Kind::kHost;
    std::uint32_t node_id = 0;
    hsa::HsaMemFlags flags{};
    std::uint32_t gpu_id = 0;
    std::uint64_t kfd_handle = 0;  // 0: none
    std::uint64_t mmap_offset = 0;
    std::set<std::uint32_t> mapped;  // GPU ids
    // kUser: as it was registered
    std::uint64_t user_address = 0;
    std::uint64_t user_size_bytes = 0;
    std::uint64_t registration_count = 0;
  };

  ThunkMemory(const HostGpus& gpus, const Topology& topology);
  ~ThunkMemory();

  // `address` is where FixedAddress wants it; otherwise the library chooses.
  HsaResult<std::uint64_t> allocate(std::uint64_t node_id, std::uint64_t size_bytes, hsa::HsaMemFlags flags,
                                    std::uint64_t address);
  HsaStatus free(std::uint64_t address);
  // On all GPUs, or on exactly these. `alternate` is set for memory whose address on the GPU is its own.
  HsaStatus map(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t& alternate);
  HsaStatus map_on_nodes(std::uint64_t address, std::uint64_t size_bytes,
                         std::span<const std::uint32_t> nodes, std::uint64_t& alternate);
  HsaStatus unmap(std::uint64_t address);
  HsaStatus register_user(std::uint64_t address, std::uint64_t size_bytes, hsa::HsaMemFlags flags);
  HsaStatus deregister(std::uint64_t address);
  HsaResult<std::uint64_t> available_bytes(std::uint64_t node_id) const;

  // What covers the address; null when nothing does.
  const Allocation* find(std::uint64_t address) const;
  // Gives clients pages of the allocation; empty when it has none to give.
  BlobOpener opener(std::uint64_t address) const;

  // Memory for the library itself: at an address of its own choice, mapped on that GPU.
  HsaResult<std::uint64_t> allocate_internal(const HostGpu& gpu, std::uint64_t size_bytes, bool in_vram);
  void free_internal(std::uint64_t address);

 private:
  using Table = std::map<std::uint64_t, Allocation>;
  Table::iterator entry_of(std::uint64_t address);
  HsaStatus allocate_on_kfd(Allocation& allocation, std::uint32_t kfd_flags, std::uint64_t kfd_bytes);
  void free_on_kfd(const Allocation& allocation) const;
  HsaStatus map_on_gpus(Allocation& allocation, std::span<const std::uint32_t> gpu_ids) const;
  HsaStatus unmap_from_gpus(Allocation& allocation) const;
  HsaStatus unmap_from_gpus(Allocation& allocation, std::vector<std::uint32_t> ids) const;
  HsaStatus map_scratch(std::uint64_t address, std::uint64_t size_bytes);
  HsaStatus map_allocation(std::uint64_t address, std::uint64_t size_bytes,
                           std::span<const std::uint32_t> gpu_ids, std::uint64_t& alternate);
  std::vector<std::uint32_t> all_gpu_ids() const;

  const HostGpus& gpus_;
  const Topology& topology_;
  VaArena internal_;
  Table table_;             // by address; without scratch backings
  Table scratch_backings_;  // what map() put behind reserved scratch
};

}  // namespace understudy::virtio_gpu
