#include "runtime/driver/xdna/xdna_driver.h"

#include <cerrno>
#include <string>

namespace hsa_rt::xdna {
namespace {

constexpr int kMaxAccelNodes = 64;
constexpr const char* kDriverName = "amdxdna_accel_driver";

}  // namespace

Result<std::shared_ptr<Driver>> XdnaDriver::open() {
  auto driver = std::make_shared<XdnaDriver>();
  for (int minor = 0; minor < kMaxAccelNodes; ++minor) {
    Result<UniqueFd> node = drm::DrmFile::open_node("/dev/accel/accel" + std::to_string(minor));
    if (!node) {
      const int reason = node.error().value;
      if (reason == ENOENT || reason == ENXIO || reason == EPERM || reason == EACCES) continue;
      return node.error();
    }
    auto file = std::make_unique<drm::DrmFile>(std::move(node).value());
    const Result<std::string> name = file->driver_name();
    if (!name || name.value() != kDriverName) continue;  // another vendor's accelerator
    const auto node_id = static_cast<uint32_t>(driver->devices_.size());
    driver->devices_.push_back(TRY(XdnaDevice::create(*driver, std::move(file), minor, node_id)));
  }
  if (driver->devices_.empty()) return Errno{ENOENT};
  return std::shared_ptr<Driver>(driver);
}

Result<std::shared_ptr<Memory>> XdnaDriver::import_dmabuf(int dmabuf_fd, uint64_t) {
  return static_cast<XdnaDevice&>(*devices_.front()).adopt(dmabuf_fd);
}

}  // namespace hsa_rt::xdna
