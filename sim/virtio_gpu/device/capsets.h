// Which capability sets the 3D device advertises, in the order of their index.
//
// Owner: plain function. Units: none. Errors: none. Thread-safety: pure. Mirrors: QEMU
// virtio_gpu_virgl_get_capsets, virtio_gpu_virgl_get_num_capsets.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/virtio_gpu/device/properties.h"
#include "sim/virtio_gpu/device/renderer.h"
#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {

inline std::vector<std::uint32_t> advertised_capsets(const DeviceProperties& properties,
                                                     const Behaviour& behaviour, const Renderer& renderer) {
  namespace abi = uapi::virtio_gpu_wire;
  std::vector<std::uint32_t> ids;
  if (!properties.gl) return ids;
  ids.push_back(abi::VIRTIO_GPU_CAPSET_VIRGL);
  if (renderer.context_type(abi::VIRTIO_GPU_CAPSET_VIRGL2)) ids.push_back(abi::VIRTIO_GPU_CAPSET_VIRGL2);
  if (behaviour.has_rocm && properties.rocm && renderer.context_type(abi::VIRTIO_GPU_CAPSET_ROCM))
    ids.push_back(abi::VIRTIO_GPU_CAPSET_ROCM);
  return ids;
}

}  // namespace understudy::virtio_gpu
