// The nodes of a GPU: dri/renderD<minor> and dri/card<minor>.
//
// Owner: the machine; the GPU outlives its nodes. Units: none. Errors: ENODEV after unplug. Thread-safety: as
// Node. Mirrors: amdgpu_drv.c: amdgpu_driver_open_kms, drm_file.c: drm_open.
#pragma once

#include <memory>
#include <span>

#include "sim/core/machine.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd {

// The driver's rows (amdgpu_kms.c: amdgpu_ioctls_kms).
std::span<const IoctlRow> amdgpu_ioctls();

void add_render_nodes(Machine& machine, const std::shared_ptr<Gpu>& gpu);

}  // namespace understudy::kfd
