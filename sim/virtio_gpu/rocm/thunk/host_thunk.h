// HostThunk: the user-space library in the process that runs the guest: everything the ROCm renderer calls on
// the host's KFD.
//
// Owner: RocmBackend. Units: as the parts. Errors: open: the errno of a host without KFD; else HsaStatus.
// Thread-safety: one thread at a time, but for openers. Mirrors: libhsakmt, as far as the renderer uses it.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/virtio_gpu/rocm/thunk/host_gpus.h"
#include "sim/virtio_gpu/rocm/thunk/status.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_events.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_memory.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_queues.h"
#include "sim/virtio_gpu/rocm/thunk/topology.h"

namespace understudy::virtio_gpu {

class HostThunk {
 public:
  static Result<std::unique_ptr<HostThunk>> open(Machine& host);
  ~HostThunk();

  HostProcess& process() { return *process_; }
  const Topology& topology() const { return topology_; }
  const HostGpus& gpus() const { return *gpus_; }
  ThunkMemory& memory() { return *memory_; }
  ThunkEvents& events() { return *events_; }
  ThunkQueues& queues() { return *queues_; }

  HsaResult<hsa::HsaVersionInfo> version() const;
  // With the heaps that are apertures, not banks.
  HsaResult<hsa::HsaNodeProperties> node_properties(std::uint64_t node_id) const;
  HsaStatus memory_properties(std::uint64_t node_id, std::span<hsa::HsaMemoryProperties> banks) const;
  HsaStatus cache_properties(std::uint64_t node_id, std::span<hsa::HsaCacheProperties> caches) const;
  HsaStatus link_properties(std::uint64_t node_id, std::span<hsa::HsaIoLinkProperties> links) const;
  HsaResult<hsa::HsaClockCounters> clock_counters(std::uint64_t node_id) const;
  // Words for `tiles` and `macro_tiles`; the counts in `config` become how many there are.
  HsaStatus tile_config(std::uint64_t node_id, std::span<std::uint32_t> tiles,
                        std::span<std::uint32_t> macro_tiles, hsa::HsaGpuTileConfig& config) const;
  HsaResult<std::int32_t> xnack_mode() const;
  HsaStatus set_xnack_mode(std::int32_t mode) const;
  HsaStatus runtime_enable(bool setup_ttmp) const;
  HsaStatus set_trap_handler(std::uint64_t node_id, std::uint64_t handler, std::uint64_t buffer) const;
  HsaStatus set_memory_policy(std::uint64_t node_id, std::uint32_t default_policy,
                              std::uint32_t alternate_policy, std::uint64_t alternate_base,
                              std::uint64_t alternate_bytes) const;
  // libdrm's amdgpu_query_gpu_info of the first render node: 0, or a negative errno.
  int gpu_info(hsa::amdgpu_gpu_info& info) const;

 private:
  HostThunk() = default;
  const TopologyNode* node(std::uint64_t node_id) const { return topology_.node(node_id); }

  // In the order they depend on each other.
  std::unique_ptr<HostProcess> process_;
  Topology topology_;
  std::unique_ptr<HostGpus> gpus_;
  std::unique_ptr<ThunkMemory> memory_;
  std::unique_ptr<ThunkEvents> events_;
  std::unique_ptr<ThunkQueues> queues_;
};

}  // namespace understudy::virtio_gpu
