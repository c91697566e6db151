// Device: what a DRM driver plugs into sim/drm: identity, its ioctl rows and a few hooks.
//
// Owner: Machine::keep; lives as long as the machine. Units: bytes. Errors: hooks return the driver's errno.
// Thread-safety: hooks are called from many threads. Mirrors: struct drm_driver and struct drm_device.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "sim/core/ioctl_table.h"
#include "sim/core/machine.h"
#include "sim/drm/gem.h"

namespace understudy::drm {

class DrmFile;

struct DriverIdentity {
  std::string name;         // "amdgpu"
  std::string description;  // "AMD GPU"
  std::string date = "0";
  int version_major = 0;
  int version_minor = 0;
  int version_patchlevel = 0;
};

// driver_features of struct drm_driver, as far as user space can tell them apart.
struct DriverFeatures {
  bool modeset = false;  // answers modeset GET_CAPs
  bool syncobj = true;
  bool syncobj_timeline = true;
  bool accel = false;  // accel node: no render/primary distinction, no auth
};

class Device {
 public:
  Device(Machine& machine, DriverIdentity identity, DriverFeatures features)
      : machine_(machine), identity_(std::move(identity)), features_(features) {}
  virtual ~Device() = default;

  Machine& machine() const { return machine_; }
  const DriverIdentity& identity() const { return identity_; }
  const DriverFeatures& features() const { return features_; }
  virtual std::span<const IoctlRow> driver_ioctls() const = 0;

  // Import of a dma-buf that is not this device's own object (or is, when the driver has no "mine" short
  // cut).
  virtual Result<GemRef> import_dma_buf(Call& call, DrmFile& file, const DmaBufRef& dma_buf) = 0;
  // drm_driver.gem_open/gem_close objects hooks: a handle of `object` appeared in / vanished from `file`.
  virtual Result<void> object_opened(DrmFile&, GemObject&) { return {}; }
  virtual void object_closed(DrmFile&, GemObject&) {}
  // mmap of `object` at its fake offset; the default maps its buffer.
  virtual Result<MmapTarget> map_object(Call& call, DrmFile& file, GemObject& object,
                                        const MmapRequest& request);

  // Fake offset space (drm_vma_manager): start -> object. First offset is 4 GiB.
  std::uint64_t reserve_mmap_offset(GemObject& object);
  void release_mmap_offset(std::uint64_t offset_bytes);
  // Exact start only; null when none.
  GemRef object_at_mmap_offset(std::uint64_t offset_bytes) const;

 private:
  Machine& machine_;
  const DriverIdentity identity_;
  const DriverFeatures features_;
  mutable std::mutex offsets_mutex_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::weak_ptr<GemObject>>>
      offsets_;  // start -> (size, object)
};

}  // namespace understudy::drm
