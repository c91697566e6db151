#include "sim/kfd/topology/caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "uapi/kfd_sysfs.h"

namespace understudy::kfd {
namespace {

constexpr unsigned kBitsPerWord = 32;  // of a sibling map; each shader array has a word
constexpr unsigned kCpuMapWords = 8;   // CRAT_SIBLINGMAP_SIZE
constexpr std::uint64_t kCpuCacheKb = 32768;

struct Cache {
  const CacheProfile& profile;
  unsigned processor = 0;  // relative to the node's first
  // One word per shader array; bit 0 of the first is the processor itself.
  std::vector<std::uint32_t> siblings;
};

// Shifts away the harvested units below the first active one; returns how many that were.
unsigned drop_harvested(std::uint32_t& mask) {
  const auto dropped = static_cast<unsigned>(std::countr_zero(mask));
  mask >>= dropped;
  return dropped;
}

std::uint32_t low_bits(unsigned count) {
  return count >= kBitsPerWord ? ~std::uint32_t{0} : (std::uint32_t{1} << count) - 1;
}

// fill_in_l1_pcache: a cache for each group of units that has an active one.
void visit_first_level(const ComputeLayout& layout, const CacheProfile& profile,
                       const std::function<void(const Cache&)>& visit) {
  unsigned processor = 0;
  for (unsigned xcc = 0; xcc < layout.xcc_count; ++xcc) {
    for (unsigned array = 0; array < layout.arrays_per_xcc(); ++array) {
      const std::uint32_t active =
          layout.active_mask(xcc, array / layout.arrays_per_engine, array % layout.arrays_per_engine);
      for (unsigned cu = 0; cu < layout.cus_per_array; cu += profile.cus_sharing) {
        std::uint32_t mask = active >> cu & low_bits(profile.cus_sharing);
        if (mask != 0) {
          const unsigned dropped = drop_harvested(mask);
          visit({profile, processor + dropped, {mask}});
        }
        processor += std::min(profile.cus_sharing, layout.cus_per_array - cu);
      }
    }
  }
}

// fill_in_l2_l3_pcache: one cache for all. As in the driver, the map starts with the first active array and
// every other word is the array before it.
void visit_shared(const ComputeLayout& layout, const CacheProfile& profile,
                  const std::function<void(const Cache&)>& visit) {
  std::uint32_t mask = layout.active_mask(0, 0, 0) & low_bits(profile.cus_sharing);
  Cache cache{profile, drop_harvested(mask), {}};
  for (unsigned xcc = 0; xcc < layout.xcc_count; ++xcc) {
    for (unsigned array = 0; array < layout.arrays_per_xcc(); ++array) {
      cache.siblings.push_back(mask);
      mask = layout.active_mask(xcc, array / layout.arrays_per_engine, array % layout.arrays_per_engine) &
             low_bits(profile.cus_sharing);
    }
  }
  visit(cache);
}

void visit_caches(const ComputeLayout& layout, const std::vector<CacheProfile>& caches,
                  const std::function<void(const Cache&)>& visit) {
  for (const CacheProfile& profile : caches) {
    if (profile.level == 1) {
      visit_first_level(layout, profile, visit);
    } else {
      visit_shared(layout, profile, visit);
    }
  }
}

// kfd_topology.c: kfd_cache_show. The driver never learns associativity and latency.
std::string properties_text(const CacheProfile& profile, std::uint32_t processor_id,
                            const std::vector<std::uint32_t>& siblings) {
  std::string text = fmt::format(
      "processor_id_low {}\nlevel {}\nsize {}\ncache_line_size {}\ncache_lines_per_tag 0\n"
      "association 0\nlatency 0\ntype {}\nsibling_map ",
      processor_id, profile.level, profile.size_kb, profile.cache_line_size, profile.type);
  for (const std::uint32_t word : siblings) {
    for (unsigned bit = 0; bit < kBitsPerWord; ++bit) text += (word >> bit & 1) != 0 ? "1," : "0,";
  }
  text.back() = '\n';
  return text;
}

}  // namespace

std::size_t count_caches(const ComputeLayout& layout, const std::vector<CacheProfile>& caches) {
  std::size_t count = 0;
  visit_caches(layout, caches, [&count](const Cache&) { ++count; });
  return count;
}

std::vector<std::string> cache_properties(const GpuProfile& profile, std::uint32_t first_processor_id) {
  std::vector<std::string> all;
  visit_caches(profile.compute, profile.caches, [&](const Cache& cache) {
    all.push_back(properties_text(cache.profile, first_processor_id + cache.processor, cache.siblings));
  });
  return all;
}

std::string cpu_cache_properties(unsigned first_core_id, unsigned core_count) {
  using namespace uapi::kfd_sysfs;
  const CacheProfile cache{3, kCpuCacheKb, 64, HSA_CACHE_TYPE_DATA | HSA_CACHE_TYPE_CPU};
  std::vector<std::uint32_t> siblings(kCpuMapWords);
  for (unsigned core = 0; core < std::min(core_count, kCpuMapWords * kBitsPerWord); ++core)
    siblings[core / kBitsPerWord] |= std::uint32_t{1} << core % kBitsPerWord;
  return properties_text(cache, first_core_id, siblings);
}

}  // namespace understudy::kfd
