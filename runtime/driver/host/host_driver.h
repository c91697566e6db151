// The CPU as a device: its nodes, and system memory that no other driver needs to know of. Memory is a memfd,
// so it can be mapped several times, but it is not a dma-buf: giving it to another driver's device is
// EOPNOTSUPP. Where a GPU or NPU exists, CPU pools take their memory from there instead.
#pragma once

#include "runtime/driver/driver.h"

namespace hsa_rt {

class HostDriver final : public Driver {
 public:
  // `nodes` as another driver's topology lists them; empty: one node made from /proc and /sys.
  explicit HostDriver(std::vector<DeviceInfo> nodes);

  DriverId id() const override { return DriverId::kHost; }
  std::string_view name() const override { return "host"; }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  bool shares_dmabufs() const override { return false; }
  Result<std::shared_ptr<Memory>> import_dmabuf(int, uint64_t) override { return Errno{ENODEV}; }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

// The pools every CPU node has: kernarg, fine- and coarse-grained system memory.
std::vector<PoolInfo> system_memory_pools(uint64_t size_bytes);

// "model name" and the number of processors, from /proc/cpuinfo.
struct ProcessorInfo {
  std::string model_name;
  std::string vendor;
  uint32_t processor_count = 0;
};
ProcessorInfo read_processor_info(const char* cpuinfo_path = "/proc/cpuinfo");

// Data and unified caches of the first processor, from /sys/devices/system/cpu.
std::vector<CacheInfo> read_processor_caches();

}  // namespace hsa_rt
