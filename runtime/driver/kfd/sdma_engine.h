// A copy engine of one GPU: a user-mode SDMA queue and the packets for copies and fills.
//
// Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_mqd_manager_v9.c (SDMA queues).
#pragma once

#include <memory>

#include "runtime/driver/queues.h"

namespace hsa_rt::kfd {

class KfdDevice;

Result<std::unique_ptr<CopyEngine>> create_sdma_engine(KfdDevice& device);

}  // namespace hsa_rt::kfd
