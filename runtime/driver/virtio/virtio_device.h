// One GPU of the host.
//
// Owner: VirtioDriver. Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/base/mapping.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/virtio/virtio_driver.h"

namespace hsa_rt::virtio {

class VirtioDevice final : public Device {
 public:
  VirtioDevice(VirtioDriver& driver, uint32_t gfx_version, DeviceInfo info);

  Driver& driver() const override { return driver_; }
  const DeviceInfo& info() const override { return info_; }
  bool shares_cpu_page_tables() const override { return false; }
  bool places_memory() const override { return true; }

  Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) override;
  Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) override;
  Result<std::shared_ptr<Memory>> register_user_memory(const AddressSpan& host,
                                                       uint64_t device_address) override;
  Result<uint64_t> available_memory_bytes() const override;
  Result<ClockCounters> clock_counters() const override;
  Result<std::unique_ptr<AqlQueue>> create_aql_queue(const AqlQueueRequest& request) override;
  Result<std::unique_ptr<CopyEngine>> create_copy_engine() override;

  VirtioDriver& virtio_driver() const { return driver_; }
  VirtioFile& file() const { return driver_.file(); }
  HostChannel& channel() const { return driver_.channel(); }
  // major * 10000 + minor * 100 + stepping.
  uint32_t gfx_version() const { return gfx_version_; }

  // Makes a queue. The first one on a device brings the doorbells of all along, which stay mapped.
  struct NewQueue {
    vhsakmt::vHsaQueueResource resource{};
    volatile uint64_t* doorbell = nullptr;
  };
  Result<NewQueue> create_host_queue(QueueRequest request);

 private:
  Result<std::shared_ptr<HostObject>> allocate_on_host(uint64_t size_bytes, uint32_t node,
                                                       const vhsakmt::HsaMemFlags& flags, bool mappable);

  VirtioDriver& driver_;
  const uint32_t gfx_version_;
  const DeviceInfo info_;
  bool local_memory_cpu_visible_ = false;

  std::mutex doorbells_lock_;
  std::shared_ptr<GemRef> doorbells_blob_;
  Mapping doorbells_;
};

}  // namespace hsa_rt::virtio
