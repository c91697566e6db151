#include "runtime/driver/host/host_driver.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace hsa_rt {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

class HostMemory final : public Memory {
 public:
  HostMemory(Device& device, uint64_t size_bytes, UniqueFd fd)
      : Memory(device, size_bytes, Placement::kHost), fd_(std::move(fd)) {}

  Result<UniqueFd> export_dmabuf() const override { return Errno{EOPNOTSUPP}; }
  Result<CpuSource> cpu_source(uint64_t offset) const override { return CpuSource{{}, fd_.get(), offset}; }

 protected:
  Result<void> close() override {
    fd_ = UniqueFd();
    return {};
  }

 private:
  UniqueFd fd_;
};

// On the CPU's own page tables there is nothing to map: the process mapping is the mapping.
class HostShare final : public Share {
 public:
  explicit HostShare(std::shared_ptr<Memory> memory) : Share(std::move(memory), true) {}
  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan&, uint64_t, Permission) override {
    return std::unique_ptr<DeviceMapping>();
  }
};

class HostDevice final : public Device {
 public:
  HostDevice(HostDriver& driver, DeviceInfo info) : driver_(driver), info_(std::move(info)) {}

  Driver& driver() const override { return driver_; }
  const DeviceInfo& info() const override { return info_; }
  bool shares_cpu_page_tables() const override { return true; }

  Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) override {
    if (request.placement != Placement::kHost) return Errno{EOPNOTSUPP};
    UniqueFd fd(::memfd_create("hsa-host-memory", MFD_CLOEXEC));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(request.size_bytes)) != 0) return Errno{errno};
    return std::shared_ptr<Memory>(std::make_shared<HostMemory>(*this, request.size_bytes, std::move(fd)));
  }

  Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) override {
    return std::unique_ptr<Share>(std::make_unique<HostShare>(std::move(memory)));
  }

  Result<uint64_t> available_memory_bytes() const override {
    struct sysinfo status {};
    if (::sysinfo(&status) != 0) return Errno{errno};
    return static_cast<uint64_t>(status.freeram) * status.mem_unit;
  }

  Result<ClockCounters> clock_counters() const override {
    struct timespec now {};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const uint64_t ns = static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
    return ClockCounters{ns, ns, ns, kNsPerSecond};
  }

 private:
  HostDriver& driver_;
  const DeviceInfo info_;
};

uint64_t total_memory_bytes() {
  struct sysinfo status {};
  return ::sysinfo(&status) == 0 ? static_cast<uint64_t>(status.totalram) * status.mem_unit : 0;
}

DeviceInfo node_from_proc() {
  const ProcessorInfo processor = read_processor_info();
  DeviceInfo info;
  info.kind = DeviceKind::kCpu;
  info.name = info.product_name = processor.model_name;
  info.vendor_name = "CPU";
  info.uuid = "CPU-XX";
  info.compute_units = processor.processor_count;
  info.caches = read_processor_caches();
  info.pools = system_memory_pools(total_memory_bytes());
  return info;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

HostDriver::HostDriver(std::vector<DeviceInfo> nodes) {
  if (nodes.empty()) nodes.push_back(node_from_proc());
  for (DeviceInfo& node : nodes) {
    node.timestamp_frequency_hz = kNsPerSecond;
    devices_.push_back(std::make_unique<HostDevice>(*this, std::move(node)));
  }
}

std::vector<PoolInfo> system_memory_pools(uint64_t size_bytes) {
  PoolInfo pool;
  pool.placement = Placement::kHost;
  pool.size_bytes = size_bytes & ~(kPageBytes - 1);
  PoolInfo fine = pool;
  fine.fine_grained = true;
  PoolInfo kernarg = fine;
  kernarg.kernarg = true;
  PoolInfo coarse = pool;
  coarse.coarse_grained = true;
  return {fine, kernarg, coarse};
}

ProcessorInfo read_processor_info(const char* cpuinfo_path) {
  ProcessorInfo info;
  std::ifstream file(cpuinfo_path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("processor")) ++info.processor_count;
    if (line.starts_with("model name") && info.model_name.empty()) info.model_name = value;
    if (line.starts_with("vendor_id") && info.vendor.empty()) info.vendor = value;
  }
  return info;
}

std::vector<CacheInfo> read_processor_caches() {
  std::vector<CacheInfo> caches;
  for (int index = 0;; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = first_word(folder + "type");
    if (type.empty()) break;
    CacheInfo cache;
    cache.data = type != "Instruction";
    cache.level = static_cast<uint32_t>(std::strtoul(first_word(folder + "level").c_str(), nullptr, 10));
    cache.size_bytes =
        std::strtoull(first_word(folder + "size").c_str(), nullptr, 10) * 1024;  // printed as "32K"
    caches.push_back(cache);
  }
  return caches;
}

}  // namespace hsa_rt
