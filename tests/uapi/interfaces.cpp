#include "interfaces.h"

#include <algorithm>
#include <stdexcept>

#include "uapi/amdgpu.h"
#include "uapi/amdxdna_variants.h"
#include "uapi/drm_variants.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"
#include "uapi/kfd_sysfs.h"
#include "uapi/vhsakmt_variants.h"
#include "uapi/virtgpu_variants.h"
#include "uapi/virtio_gpu_wire.h"

#define INTERFACE(name)                                                         \
  Interface {                                                                   \
#name, uapi::name::ioctls(), uapi::name::structs(), uapi::name::constants() \
  }

std::vector<Interface> interfaces() {
  return {
      INTERFACE(kfd),
      INTERFACE(kfd_rocm),
      INTERFACE(kfd_sysfs),
      INTERFACE(drm),
      INTERFACE(drm::variants::libdrm_2_4_114),
      INTERFACE(amdgpu),
      INTERFACE(amdxdna),
      INTERFACE(amdxdna::variants::linux_7_3),
      INTERFACE(amdxdna::variants::out_of_tree),
      INTERFACE(amdxdna::variants::rocr_bundled),
      INTERFACE(virtgpu),
      INTERFACE(virtgpu::variants::linux_6_1),
      INTERFACE(virtgpu::variants::linux_6_12),
      INTERFACE(virtgpu::variants::userptr_v4),
      INTERFACE(virtgpu::variants::userptr_v3),
      INTERFACE(virtgpu::variants::blob_hints),
      INTERFACE(virtgpu::variants::rocm_2026),
      INTERFACE(virtio_gpu_wire),
      INTERFACE(vhsakmt),
      INTERFACE(vhsakmt::variants::host_mr1568),
  };
}

Interface interface(const std::string& name) {
  const auto all = interfaces();
  const auto found = std::ranges::find(all, name, &Interface::name);
  if (found == all.end()) throw std::invalid_argument("no interface " + name);
  return *found;
}
