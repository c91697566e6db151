// The Driver interface: everything the core may know about kernel drivers. A Driver is one kernel interface
// (KFD, amdxdna, virtio); a Device is one thing behind it that can use memory. The core never sees a native
// handle, a device node or a driver's library; the only descriptors that cross this line are dma-bufs, and
// they are owned.
//
// Owner: Runtime shares the drivers (a driver whose kernel state belongs to the process keeps itself alive),
// drivers hold their devices; both outlive every Memory made from them. Errors: the kernel's errno;
// EOPNOTSUPP where a driver lacks the feature. Thread-safety: all methods of Driver and Device may be called
// from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/expected.h"
#include "runtime/driver/device_info.h"
#include "runtime/driver/events.h"
#include "runtime/driver/memory.h"
#include "runtime/driver/queues.h"

namespace hsa_rt {

enum class DriverId : uint8_t { kHost = 1, kKfd = 2, kXdna = 3, kVirtio = 4 };

class Driver;

struct ClockCounters {
  uint64_t device = 0;
  uint64_t cpu_ns = 0;
  uint64_t system_ns = 0;
  uint64_t system_frequency_hz = 0;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual Driver& driver() const = 0;
  virtual const DeviceInfo& info() const = 0;

  // True when the device reaches memory through the process's own page tables: the CPU itself, and NPUs with
  // shared virtual addressing. Such a device sees a mapping as soon as the CPU's page tables have it.
  virtual bool shares_cpu_page_tables() const = 0;

  // True when the device itself chooses the addresses of bound memory, because they must also suit somebody
  // the core cannot ask.
  virtual bool places_memory() const { return false; }

  virtual Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) = 0;

  // The right for this device to use `memory`, whoever owns it. Same driver and same device file: a borrowed
  // handle. Anything else goes through a dma-buf that is closed again before the call returns.
  virtual Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) = 0;

  // The caller's own pages, for use at `device_address` (page-aligned like `host`, or kPlacedByDevice) on
  // devices of this driver.
  virtual Result<std::shared_ptr<Memory>> register_user_memory(const AddressSpan& host,
                                                               uint64_t device_address);

  virtual Result<uint64_t> available_memory_bytes() const;
  virtual Result<ClockCounters> clock_counters() const;

  virtual Result<std::unique_ptr<AqlQueue>> create_aql_queue(const AqlQueueRequest& request);
  virtual Result<std::unique_ptr<CopyEngine>> create_copy_engine();
  virtual Result<std::unique_ptr<CommandContext>> create_command_context();
};

enum class SvmAttribute : uint32_t {
  kPreferredLocation = 0,
  kPrefetchLocation = 1,
  kAccess = 2,
  kAccessInPlace = 3,
  kNoAccess = 4,
  kSetFlags = 5,
  kClearFlags = 6,
  kGranularity = 7,
};

enum SvmFlag : uint32_t {
  kSvmHostAccess = 1 << 0,
  kSvmCoherent = 1 << 1,
  kSvmHiveLocal = 1 << 2,
  kSvmReadOnly = 1 << 3,
  kSvmExecutable = 1 << 4,
  kSvmReadMostly = 1 << 5,
};

struct SvmSetting {
  SvmAttribute attribute = SvmAttribute::kAccess;
  uint32_t value = 0;  // SvmFlags or granularity
  Device* device =
      nullptr;  // locations and accesses; nullptr is system memory, or "undefined" with undefined_location
  bool undefined_location = false;
};

// Shared virtual memory of a driver: attributes of ordinary process memory.
class SvmRanges {
 public:
  virtual ~SvmRanges() = default;
  virtual Result<void> set_attributes(const AddressSpan& span, std::span<const SvmSetting> settings) = 0;
  virtual Result<void> get_attributes(const AddressSpan& span, std::span<SvmSetting> settings) = 0;
};

class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  virtual DriverId id() const = 0;
  virtual std::string_view name() const = 0;
  virtual std::span<const std::unique_ptr<Device>> devices() const = 0;

  // Whether the memory of its devices can go to other drivers and processes as dma-bufs.
  virtual bool shares_dmabufs() const { return true; }

  // CPU nodes as this driver's topology lists them; empty when it lists none.
  virtual std::span<const DeviceInfo> host_nodes() const { return {}; }

  // Takes part in the memory behind a dma-buf. ENODEV: another driver's buffer, ask that one; any other error
  // is final. `bound_address` as in AllocationRequest. The descriptor stays the caller's.
  virtual Result<std::shared_ptr<Memory>> import_dmabuf(int dmabuf_fd, uint64_t bound_address) = 0;
  // What the exporter attached to the buffer for its own kind (tiling and the like). ENODEV as above.
  virtual Result<std::vector<uint8_t>> dmabuf_metadata(int dmabuf_fd);

  virtual EventSource* events() { return nullptr; }
  virtual SvmRanges* svm() { return nullptr; }
};

// All drivers that answer on this machine, host first. Those whose device nodes are absent are left out
// silently; one that is there but fails is an error.
Result<std::vector<std::shared_ptr<Driver>>> discover_drivers();

}  // namespace hsa_rt
