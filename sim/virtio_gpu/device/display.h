// Display: outputs and scanouts, as far as a guest can ask for them; nothing is shown anywhere.
//
// Owner: the device; used on its strand. Units: pixels. Errors: protocol response codes. Thread-safety: none.
// Mirrors: QEMU hw/display/virtio-gpu-base.c, virtio_gpu_fill_display_info, virtio_gpu_generate_edid.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/virtio_gpu/device/properties.h"
#include "sim/virtio_gpu/wire/commands.h"

namespace understudy::virtio_gpu {

class Display {
 public:
  explicit Display(const DeviceProperties& properties);

  DisplayInfo info() const;
  Response edid(std::uint32_t scanout) const;  // ERR_INVALID_PARAMETER
  bool has_output(std::uint32_t scanout) const { return scanout < scanouts_.size(); }

  // Which resource is on a scanout; 0: none.
  std::uint32_t resource_on(std::uint32_t scanout) const { return scanouts_[scanout]; }
  void show(std::uint32_t scanout, std::uint32_t resource_id) { scanouts_[scanout] = resource_id; }
  void drop_resource(std::uint32_t resource_id);
  void reset();

 private:
  const std::uint32_t width_;
  const std::uint32_t height_;
  std::vector<std::uint32_t> scanouts_;
};

}  // namespace understudy::virtio_gpu
