// The amdxdna driver: every /dev/accel/accelN that is an AMD NPU.
//
// Errors: errno of the DRM and amdxdna ioctls. Thread-safe.
// Mirrors: drivers/accel/amdxdna/.
#pragma once

#include <memory>
#include <vector>

#include "runtime/driver/driver.h"
#include "runtime/driver/xdna/xdna_device.h"

namespace hsa_rt::xdna {

class XdnaDriver final : public Driver {
 public:
  // ENOENT: no NPU here.
  static Result<std::shared_ptr<Driver>> open();

  DriverId id() const override { return DriverId::kXdna; }
  std::string_view name() const override { return "xdna"; }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  // Takes any dma-buf: the kernel driver wraps whatever it can attach to. So this driver is asked last.
  Result<std::shared_ptr<Memory>> import_dmabuf(int dmabuf_fd, uint64_t bound_address) override;

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace hsa_rt::xdna
