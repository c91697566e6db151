// Puts a virtio-gpu into a guest machine: device model, driver, nodes, sysfs; with the ROCm capability set, a
// host machine behind it.
//
// Owner: the guest machine keeps what is made, and the host machine with it. Units: none. Errors: the line
// for the user, when a request names what does not exist or asks for the impossible. Thread-safety: before
// clients arrive. Mirrors: virtio/virtgpu_drv.c: virtio_gpu_probe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/machine.h"

namespace understudy::virtio_gpu {

class VirtioGpuDevice;

enum class Mode : std::uint8_t { k2d, kGl, kRocm };

// "rocm", or "rocm,hostmem=8G,strict=on": a mode, and properties of the device on top of what the mode sets.
struct VirtioGpuRequest {
  Mode mode = Mode::k2d;
  std::vector<std::pair<std::string, std::string>> properties;
};

struct ParsedRequest {
  VirtioGpuRequest request;
  std::optional<std::string> problem;
};
ParsedRequest parse_request(std::string_view text);

struct AddedDevice {
  std::shared_ptr<VirtioGpuDevice> device;  // null when there is a problem
  std::optional<std::string> problem;
};
// `host` is null without --host-gpu: the ROCm renderer then finds no KFD, as on a host without one.
AddedDevice add_device(Machine& guest, std::shared_ptr<Machine> host, const VirtioGpuRequest& request);

}  // namespace understudy::virtio_gpu
