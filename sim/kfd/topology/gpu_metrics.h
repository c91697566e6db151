// gpu_metrics: the binary table of sensors that amdgpu shows of a GPU; an idle one.
//
// Owner: stateless. Units: as in the driver's formats. Errors: none. Thread-safety: stateless. Mirrors:
// kgd_pp_interface.h: struct gpu_metrics_v1_3 and gpu_metrics_v3_0; smu_cmn_init_soft_gpu_metrics.
#pragma once

#include <string>

#include "sim/kfd/gpu.h"

namespace understudy::kfd {

std::string gpu_metrics(const Gpu& gpu);

}  // namespace understudy::kfd
