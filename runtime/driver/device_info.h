// What a driver knows about a node of the machine, in the words of the KFD topology where it has one. Plain
// data: filled by the drivers at discovery, read by the agent, pool, cache and ISA queries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/driver/memory.h"

namespace hsa_rt {

enum class DeviceKind : uint8_t { kCpu, kGpu, kNpu };

struct CacheInfo {
  uint32_t level = 0;
  uint64_t size_bytes = 0;
  bool data = false;
};

enum class LinkType : uint8_t { kHyperTransport = 0, kQpi = 1, kPcie = 2, kInfiniBand = 3, kXgmi = 4 };

struct LinkInfo {
  uint32_t node_to = 0;
  LinkType type = LinkType::kPcie;
  uint32_t weight = 0;
  uint32_t min_latency = 0, max_latency = 0;
  uint32_t min_bandwidth_mb_s = 0, max_bandwidth_mb_s = 0;
  bool atomics_32bit = true, atomics_64bit = true;
  bool coherent = true;
  bool peer_to_peer = true;
};

enum class PoolSegment : uint8_t { kGlobal = 0, kReadonly = 1, kPrivate = 2, kGroup = 3 };

struct PoolInfo {
  PoolSegment segment = PoolSegment::kGlobal;
  Placement placement = Placement::kDevice;
  uint64_t size_bytes = 0;
  bool kernarg = false;
  bool fine_grained = false;
  bool coarse_grained = false;
  bool allocatable = true;
  bool cpu_visible = true;
  uint64_t granule_bytes = kPageBytes;
  uint64_t recommended_granule_bytes = kPageBytes;
};

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  uint32_t node_id = 0;  // position in the driver's own topology
  std::string name;      // "gfx90a", "aie2p", or the CPU's model name
  std::string product_name;
  std::string vendor_name;
  std::string uuid;  // "GPU-..." or "CPU-XX"
  uint32_t vendor_id = 0;
  uint32_t chip_id = 0;
  uint32_t asic_revision = 0;
  uint32_t asic_family = 0;
  uint32_t domain = 0;
  uint32_t location_id = 0;  // bus << 8 | device << 3 | function
  uint64_t driver_uid = 0;
  uint32_t compute_units = 0;
  uint32_t simds_per_cu = 0;
  uint32_t max_waves_per_cu = 0;
  uint32_t shader_engines = 0;
  uint32_t shader_arrays_per_engine = 0;
  uint32_t xcc_count = 1;
  uint32_t wavefront_size = 0;
  uint32_t watch_points = 0;
  uint32_t max_clock_mhz = 0;
  uint32_t memory_width_bits = 0;
  uint32_t memory_clock_mhz = 0;
  uint32_t cacheline_bytes = 64;
  uint32_t firmware_version = 0;
  uint32_t sdma_firmware_version = 0;
  uint32_t sdma_engines = 0;
  uint32_t sdma_xgmi_engines = 0;
  uint64_t timestamp_frequency_hz = 0;
  uint32_t max_queues = 0;
  uint64_t queue_min_packets = 0;
  uint64_t queue_max_packets = 0;
  uint32_t nearest_cpu_node = 0;
  bool integrated = false;  // shares the host's memory
  bool fast_f16 = false;
  std::vector<std::string> isa_names;
  std::vector<CacheInfo> caches;
  std::vector<LinkInfo> links;
  std::vector<PoolInfo> pools;
};

}  // namespace hsa_rt
