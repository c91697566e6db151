#include "sim/virtio_gpu/rocm/thunk/host_gpus.h"

#include <algorithm>
#include <string>

namespace understudy::virtio_gpu {

Result<std::unique_ptr<HostGpus>> HostGpus::open(HostProcess& process, const Topology& topology) {
  std::unique_ptr<HostGpus> opened(new HostGpus(process));
  opened->kfd_ = TRY(process.open("kfd"));
  for (const TopologyNode* node : topology.gpus()) {
    HostGpu gpu;
    gpu.node = node;
    gpu.node_id = topology.node_of_gpu(node->gpu_id());
    gpu.render = TRY(process.open("dri/renderD" + std::to_string(node->properties.DrmRenderMinor)));
    uapi::kfd::kfd_ioctl_acquire_vm_args acquire{};
    acquire.gpu_id = node->gpu_id();
    acquire.drm_fd = static_cast<std::uint32_t>(gpu.render.descriptor());
    TRY(opened->ioctl<uapi::kfd::AcquireVm>(acquire));
    opened->gpus_.push_back(std::move(gpu));
  }

  std::vector<uapi::kfd::kfd_process_device_apertures> apertures(opened->gpus_.size());
  const HostAddressSpace::Staged staged(process.memory(), std::as_writable_bytes(std::span(apertures)));
  uapi::kfd::kfd_ioctl_get_process_apertures_new_args args{};
  args.num_of_nodes = static_cast<std::uint32_t>(apertures.size());
  args.kfd_process_device_apertures_ptr = staged.address();
  if (!apertures.empty()) TRY(opened->ioctl<uapi::kfd::GetProcessAperturesNew>(args));
  for (const auto& aperture : apertures) {
    const auto gpu = std::ranges::find_if(
        opened->gpus_, [&](const HostGpu& item) { return item.node->gpu_id() == aperture.gpu_id; });
    if (gpu != opened->gpus_.end()) gpu->apertures = aperture;
  }
  return opened;
}

const HostGpu* HostGpus::by_gpu_id(std::uint32_t gpu_id) const {
  const auto gpu =
      std::ranges::find_if(gpus_, [&](const HostGpu& item) { return item.node->gpu_id() == gpu_id; });
  return gpu == gpus_.end() ? nullptr : &*gpu;
}

const HostGpu* HostGpus::by_node(std::uint64_t node_id) const {
  const auto gpu = std::ranges::find_if(gpus_, [&](const HostGpu& item) { return item.node_id == node_id; });
  return gpu == gpus_.end() ? nullptr : &*gpu;
}

}  // namespace understudy::virtio_gpu
