// HostGpus: /dev/kfd and a render node per GPU, open and bound together, as every process with GPU memory has
// them.
//
// Owner: HostThunk. Units: bytes. Errors: open: ENOENT on a host without KFD, else the drivers'.
// Thread-safety: immutable once open; HostProcess's calls are safe from any thread. Mirrors: libhsakmt
// openclose.c: hsaKmtOpenKFD, fmm.c: hsakmt_fmm_init_process_apertures.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/virtio_gpu/rocm/host/host_process.h"
#include "sim/virtio_gpu/rocm/thunk/topology.h"
#include "uapi/kfd.h"

namespace understudy::virtio_gpu {

struct HostGpu {
  const TopologyNode* node = nullptr;
  std::uint32_t node_id = 0;
  HostFile render;
  uapi::kfd::kfd_process_device_apertures apertures{};
};

class HostGpus {
 public:
  static Result<std::unique_ptr<HostGpus>> open(HostProcess& process, const Topology& topology);

  HostProcess& process() const { return process_; }
  const FileRef& kfd() const { return kfd_.file(); }
  const std::vector<HostGpu>& all() const { return gpus_; }
  const HostGpu* by_gpu_id(std::uint32_t gpu_id) const;
  const HostGpu* by_node(std::uint64_t node_id) const;

  template <typename Tag>
  Result<int> ioctl(typename Tag::Args& args) const {
    return process_.ioctl<Tag>(kfd(), args);
  }

 private:
  explicit HostGpus(HostProcess& process) : process_(process) {}
  HostProcess& process_;
  HostFile kfd_;
  std::vector<HostGpu> gpus_;
};

}  // namespace understudy::virtio_gpu
