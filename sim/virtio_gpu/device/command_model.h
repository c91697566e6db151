// CommandModel: what a device does with the commands of its control queue; one for the 2D device, one for the
// 3D device.
//
// Owner: the device; its strand is the only caller. Units: bytes. Errors: protocol response codes, in the
// response. Thread-safety: none. Mirrors: QEMU's process_cmd of VirtIOGPUClass.
#pragma once

#include <memory>

#include "sim/virtio_gpu/device/display.h"
#include "sim/virtio_gpu/device/host_visible_region.h"
#include "sim/virtio_gpu/device/properties.h"
#include "sim/virtio_gpu/device/renderer.h"
#include "sim/virtio_gpu/device/request.h"
#include "sim/virtio_gpu/wire/commands.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

// What both models work on.
struct DeviceParts {
  const GuestMemory& memory;
  const DeviceProperties& properties;
  const Behaviour& behaviour;
  Display& display;
  HostVisibleRegion& region;

  std::uint32_t entry_limit() const { return properties.entry_limit.value_or(behaviour.entry_limit); }
};

class CommandModel {
 public:
  virtual ~CommandModel() = default;
  virtual Response execute(const Request& request) = 0;
  virtual std::size_t resource_count() const = 0;
  virtual void reset() = 0;
};

std::unique_ptr<CommandModel> make_2d_model(const DeviceParts& parts);
std::unique_ptr<CommandModel> make_gl_model(const DeviceParts& parts, Renderer& renderer);

}  // namespace understudy::virtio_gpu
