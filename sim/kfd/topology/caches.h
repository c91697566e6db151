// The caches of a GPU as its topology node lists them: one directory per cache, found by walking the compute
// units.
//
// Owner: stateless. Units: sizes in KiB. Errors: none. Thread-safety: stateless. Mirrors: kfd_topology.c:
// kfd_fill_cache_non_crat_info.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/kfd/profile.h"

namespace understudy::kfd {

std::size_t count_caches(const ComputeLayout& layout, const std::vector<CacheProfile>& caches);

// The content of nodes/N/caches/<index>/properties, in order. `first_processor_id` is the node's
// simd_id_base.
std::vector<std::string> cache_properties(const GpuProfile& profile, std::uint32_t first_processor_id);

// The third-level cache that the cores of a CPU node share.
std::string cpu_cache_properties(unsigned first_core_id, unsigned core_count);

}  // namespace understudy::kfd
