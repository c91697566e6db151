#include "runtime/driver/driver.h"
#include "runtime/driver/host/host_driver.h"
#include "runtime/driver/kfd/kfd_driver.h"
#include "runtime/driver/virtio/virtio_driver.h"
#include "runtime/driver/xdna/xdna_driver.h"

namespace hsa_rt {
namespace {

using Opener = Result<std::shared_ptr<Driver>> (*)();

// Asked in this order whose a dma-buf is; the last takes any.
constexpr Opener kOpeners[] = {
    kfd::KfdDriver::of_process,
    xdna::XdnaDriver::open,
    virtio::VirtioDriver::open,
};

bool is_absent(Errno error) {
  return error.value == ENOENT || error.value == ENXIO || error.value == ENODEV;
}

}  // namespace

Result<std::vector<std::shared_ptr<Driver>>> discover_drivers() {
  std::vector<std::shared_ptr<Driver>> found;
  std::vector<DeviceInfo> host_nodes;
  for (const Opener open : kOpeners) {
    Result<std::shared_ptr<Driver>> driver = open();
    if (!driver) {
      if (is_absent(driver.error())) continue;
      return driver.error();
    }
    if (host_nodes.empty()) {
      host_nodes.assign(driver.value()->host_nodes().begin(), driver.value()->host_nodes().end());
    }
    found.push_back(std::move(driver).value());
  }
  found.insert(found.begin(), std::make_shared<HostDriver>(std::move(host_nodes)));
  return found;
}

}  // namespace hsa_rt
