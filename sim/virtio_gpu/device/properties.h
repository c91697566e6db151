// Properties and behaviour of the device: what `-device virtio-gpu-gl,...` would say, and what the QEMU that
// reads it does.
//
// Owner: plain data, fixed when the device is made. Units in the names. Errors: set_property and check return
// the line for the user. Thread-safety: immutable. Mirrors: QEMU hw/display/virtio-gpu.c:
// virtio_gpu_properties, virtio_gpu_device_realize; virtio-gpu-gl.c.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace understudy::virtio_gpu {

// What differs between the device models that are out there. Code asks for the difference, never for a
// version.
struct Behaviour {
  std::string_view name;
  // Requests without a whole header, or with less than their struct, are told so; otherwise the former are
  // never answered and the latter answered as done.
  bool reports_malformed;
  // The 3D device keeps a list of resources: unknown and duplicate ids are errors.
  bool gl_checks_resource_ids;
  // The 3D device knows RESOURCE_CREATE_BLOB, MAP_BLOB, UNMAP_BLOB, SET_SCANOUT_BLOB.
  bool gl_has_blobs;
  // ... but its check of the entry list is the wrong way round: guest memory never becomes a blob.
  bool gl_rejects_guest_blobs;
  bool has_context_init;
  // Fences of a context's ring retire by themselves instead of on one timeline for all.
  bool has_ring_fences;
  // A renderer that does not start stops the control queue for good; otherwise nobody looks.
  bool renderer_failure_stops_queue;
  // SUBMIT_3D with more is refused; 0: no limit.
  std::uint32_t submit_limit_bytes;
  // Memory entries of one list; 0: no limit but the descriptors'.
  std::uint32_t entry_limit;
  // The property `rocm` exists.
  bool has_rocm;
};

// "qemu-7.2", "qemu-10.0", "series" (the ROCm series on a QEMU with the blob fix).
std::span<const Behaviour> behaviours();
const Behaviour* find_behaviour(std::string_view name);

struct DeviceProperties {
  bool gl = false;  // virtio-gpu-gl rather than virtio-gpu
  bool blob = false;
  bool context_init = false;
  bool rocm = false;
  // Feature bit 5 of the early series; today's meaning is another one.
  bool userptr_feature = false;
  bool edid = true;
  std::uint64_t hostmem_bytes = 0;              // host-visible region
  std::uint64_t max_hostmem_bytes = 256 << 20;  // 2D images together
  std::uint32_t max_outputs = 1;
  std::uint32_t xres = 1280;
  std::uint32_t yres = 800;
  // Overrides the behaviour's limit.
  std::optional<std::uint32_t> entry_limit;
  // Say aloud what the device model and the renderer swallow.
  bool strict = false;

  bool offers_context_init(const Behaviour& behaviour) const {
    return context_init && behaviour.has_context_init && gl;
  }
};

// Applies `name=value`. The line to show when there is no such property or the value does not fit.
std::optional<std::string> set_property(DeviceProperties& properties, std::string_view name,
                                        std::string_view value);

// What realize would refuse.
std::optional<std::string> check_properties(const DeviceProperties& properties, const Behaviour& behaviour);

}  // namespace understudy::virtio_gpu
