// PRIME between handles and dma-buf descriptors. Mirrors drm_prime.c.
#pragma once

#include "sim/drm/drm_file.h"
#include "uapi/drm.h"

namespace understudy::drm {

Outcome prime_handle_to_fd(DrmFile& file, Call& call, uapi::drm::drm_prime_handle& args);
Outcome prime_fd_to_handle(DrmFile& file, Call& call, uapi::drm::drm_prime_handle& args);

}  // namespace understudy::drm
