// Memory the driver needs for itself: allocated, mapped at one address for the CPU and for some GPUs, and
// given back when the object goes. Event page, queue rings, end-of-pipe buffers, save areas.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/driver/driver.h"

namespace hsa_rt::kfd {

class KfdDevice;

class DeviceBuffer {
 public:
  // `request.bound_address` is ignored; the address is chosen here. The size is rounded up to pages.
  static Result<DeviceBuffer> create(KfdDevice& device, AllocationRequest request,
                                     std::span<KfdDevice* const> map_to, bool cpu_access);

  uint64_t address() const { return range_.span().base; }
  uint64_t size_bytes() const { return range_.span().size; }
  void* data() const { return range_.base(); }
  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  struct Access {
    std::unique_ptr<Share> share;
    std::unique_ptr<DeviceMapping> mapping;
  };

  ReservedRange range_;
  std::shared_ptr<Memory> memory_;
  std::vector<Access> access_;
};

}  // namespace hsa_rt::kfd
