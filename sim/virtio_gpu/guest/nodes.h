// The nodes of a virtio-gpu, and what sysfs shows of it.
//
// Owner: the machine; the device outlives its nodes. Units: none. Errors: ENODEV after unplug. Thread-safety:
// as Node. Mirrors: virtgpu_kms.c: virtio_gpu_driver_open; drm_sysfs.c; virtio and PCI core attributes.
#pragma once

#include <memory>

#include "sim/core/machine.h"
#include "sim/virtio_gpu/guest/virtio_gpu_device.h"

namespace understudy::virtio_gpu {

inline constexpr unsigned kDrmMajor = 226;
inline constexpr unsigned kFirstRenderMinor = 128;

// The number of the next DRM device: N of cardN.
unsigned next_card_number(const Machine& machine);

void add_nodes(Machine& machine, const std::shared_ptr<VirtioGpuDevice>& gpu, unsigned card_number);

}  // namespace understudy::virtio_gpu
