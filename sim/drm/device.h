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
#include <vector>

#include "sim/core/ioctl_table.h"
#include "sim/core/machine.h"
#include "sim/drm/gem.h"
#include "sim/drm/gem_names.h"
#include "sim/drm/primary.h"

namespace uapi::drm {
struct drm_mode_create_dumb;
}

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

struct CapabilityValue {
  std::uint64_t capability = 0;  // DRM_CAP_*
  std::uint64_t value = 0;
};

// driver_features of struct drm_driver, as far as user space can tell them apart.
struct DriverFeatures {
  bool modeset = false;  // answers modeset GET_CAPs, with these values
  std::vector<CapabilityValue> modeset_capabilities = {
      {0x1, 1},  {0x2, 1},  {0x3, 24},
      {0x4, 1},                         // DUMB_BUFFER, VBLANK_HIGH_CRTC, PREFERRED_DEPTH, PREFER_SHADOW
      {0x7, 1},  {0x8, 64}, {0x9, 64},  // ASYNC_PAGE_FLIP, CURSOR_WIDTH, CURSOR_HEIGHT
      {0x10, 1}, {0x11, 0}, {0x12, 1},
      {0x15, 0}};  // ADDFB2_MODIFIERS, PAGE_FLIP_TARGET, IN_VBLANK_EVENT, ATOMIC_ASYNC
  bool syncobj = true;
  bool syncobj_timeline = true;
  bool dumb_buffers = false;
};

class Device {
 public:
  Device(Machine& machine, DriverIdentity identity, DriverFeatures features)
      : machine_(machine), identity_(std::move(identity)), features_(features) {}
  virtual ~Device() = default;

  Machine& machine() const { return machine_; }
  const DriverIdentity& identity() const { return identity_; }
  const DriverFeatures& features() const { return features_; }
  // GET_UNIQUE: the bus id, "pci:0000:03:00.0".
  virtual std::string unique() const { return {}; }
  virtual std::span<const IoctlRow> driver_ioctls() const = 0;
  // drm_dev_unplug(): from then on every call answers ENODEV.
  void unplug() { unplugged_.store(true, std::memory_order_release); }
  bool unplugged() const { return unplugged_.load(std::memory_order_acquire); }

  // Import of a dma-buf that is not this device's own object (or is, when the driver has no "mine" short
  // cut).
  virtual Result<GemRef> import_dma_buf(Call& call, DrmFile& file, const DmaBufRef& dma_buf) = 0;
  // drm_driver.gem_open/gem_close objects hooks: a handle of `object` appeared in / vanished from `file`.
  virtual Result<void> object_opened(DrmFile&, GemObject&) { return {}; }
  virtual void object_closed(DrmFile&, GemObject&) {}
  // mmap of `object` at its fake offset; the default maps its buffer.
  virtual Result<MmapTarget> map_object(Call& call, DrmFile& file, GemObject& object,
                                        const MmapRequest& request);

  // drm_driver.dumb_create, after the core's checks: the object for args.width x args.height, with args.pitch
  // and args.size filled in. Only called with features().dumb_buffers.
  virtual Result<GemRef> create_dumb(Call& call, DrmFile& file, uapi::drm::drm_mode_create_dumb& args);

  MasterSeat& master_seat() { return master_seat_; }
  GemNames& gem_names() { return gem_names_; }

  // Fake offset space (drm_vma_manager): start -> object. First offset is 4 GiB.
  std::uint64_t reserve_mmap_offset(GemObject& object);
  void release_mmap_offset(std::uint64_t offset_bytes);
  // Exact start only; null when none.
  GemRef object_at_mmap_offset(std::uint64_t offset_bytes) const;

 private:
  Machine& machine_;
  const DriverIdentity identity_;
  const DriverFeatures features_;
  std::atomic<bool> unplugged_{false};
  MasterSeat master_seat_;
  GemNames gem_names_;
  mutable std::mutex offsets_mutex_;
  // DRM_FILE_PAGE_OFFSET_START: the first page of the space on 64-bit machines.
  std::uint64_t next_offset_bytes_ = std::uint64_t{0x100000} * 4096;  // guarded by offsets_mutex_
  std::map<std::uint64_t, std::pair<std::uint64_t, std::weak_ptr<GemObject>>>
      offsets_;  // start -> (size, object)
};

}  // namespace understudy::drm
