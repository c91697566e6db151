// SDMA packets, as dwords. The same for SDMA 4 to 7 except where SdmaVariant says otherwise.
//
// Mirrors: the packet formats of drivers/gpu/drm/amd/amdgpu/*_sdma_pkt_open.h.
#pragma once

#include <cstdint>
#include <vector>

namespace hsa_rt::amdgpu {

struct SdmaVariant {
  uint64_t max_copy_bytes = 0x3fffff;  // what one COPY_LINEAR can carry
  bool has_cache_control = false;      // GCR packets (gfx10 and later)
  uint32_t fence_memory_type = 0;      // gfx10 and later want uncached fences

  // `gfx_version` as in the topology: major * 10000 + minor * 100 + stepping.
  static SdmaVariant of(uint32_t gfx_version);
};

// Appends packets to a list of dwords.
class SdmaWriter {
 public:
  explicit SdmaWriter(const SdmaVariant& variant) : variant_(variant) {}

  const std::vector<uint32_t>& dwords() const { return dwords_; }
  void clear() { dwords_.clear(); }

  // One packet; `size_bytes` is at most the variant's limit.
  void copy_linear(uint64_t destination, uint64_t source, uint64_t size_bytes);
  // One packet; at most kMaxFillBytes, a multiple of 4.
  void fill(uint64_t destination, uint32_t value, uint64_t size_bytes);
  void wait_until_zero(uint64_t address);
  void fence(uint64_t address, uint32_t value);
  void atomic_add64(uint64_t address, int64_t addend);
  void timestamp(uint64_t address);
  void trap(uint32_t event_id);
  void flush_hdp();
  void invalidate_caches();
  void write_back_caches();

  static constexpr uint64_t kMaxFillBytes = 0x3ffffc;

 private:
  void put(uint32_t dword) { dwords_.push_back(dword); }
  void put_address(uint64_t address) {
    put(static_cast<uint32_t>(address));
    put(static_cast<uint32_t>(address >> 32));
  }
  void cache_control(uint32_t control);

  const SdmaVariant variant_;
  std::vector<uint32_t> dwords_;
};

}  // namespace hsa_rt::amdgpu
