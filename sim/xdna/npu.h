// Npu: one AMD NPU: profile, firmware state that all opens share, and the DRM device behind
// /dev/accel/accelN.
//
// Owner: Machine::keep. Units: MHz, bytes, microseconds as named. Errors: see the ioctl handlers.
// Thread-safety: all methods from any thread; contexts_mutex_ guards the device-wide table and is taken
// before any context's own lock. Mirrors: amdxdna_pci_drv.h: struct amdxdna_dev; aie2_pci.c, aie2_pm.c,
// aie2_error.c.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/drm/device.h"
#include "sim/xdna/profile.h"
#include "uapi/amdxdna.h"

namespace understudy::xdna {

class HwContext;
class XdnaFile;

enum class DriverFlavour : std::uint8_t { kOutOfTree, kMainline, kFirst, kLegacy };

struct NpuPlacement {
  unsigned index = 0;  // accel minor
  unsigned pci_domain = 0, pci_bus = 0, pci_device = 0, pci_function = 0;
};

// The driver's rows (amdxdna_pci_drv.c: amdxdna_drm_ioctls).
std::span<const IoctlRow> xdna_ioctls();

class Npu : public drm::Device {
 public:
  Npu(Machine& machine, NpuProfile profile, NpuPlacement placement);
  ~Npu() override;

  const NpuProfile& profile() const { return profile_; }
  const NpuPlacement& placement() const { return placement_; }
  DriverFlavour flavour() const { return flavour_; }
  std::string label() const;  // "accel/accel0"

  std::string unique() const override;
  // Offers "unplug", "reset" and "firmware-hang" to fault plans.
  void register_controls();

  std::span<const IoctlRow> driver_ioctls() const override;
  Result<drm::GemRef> import_dma_buf(Call& call, drm::DrmFile& file, const DmaBufRef& dma_buf) override;
  Result<MmapTarget> map_object(Call& call, drm::DrmFile& file, drm::GemObject& object,
                                const MmapRequest& request) override;

  // Device-wide contexts, cyclic ids from 1. EINVAL when firmware has no room for another.
  Result<std::uint32_t> add_context(const std::shared_ptr<HwContext>& context);
  void remove_context(std::uint32_t id);
  std::vector<std::shared_ptr<HwContext>> contexts() const;

  std::uint8_t power_mode() const { return power_mode_.load(); }
  void set_power_mode(std::uint8_t mode) { power_mode_.store(mode); }
  const DpmLevel& dpm_level() const;
  std::atomic<std::uint8_t> force_preempt{0};
  std::atomic<std::uint8_t> frame_boundary_preempt{0};
  std::atomic<std::uint8_t> automatic_coredump{0};
  // Firmware has stopped answering until the next reset.
  bool firmware_hangs() const { return firmware_hangs_.load(); }

  // The last asynchronous error; the next one overwrites it, reading does not clear it.
  void record_async_error(const uapi::amdxdna::amdxdna_async_error& error);
  uapi::amdxdna::amdxdna_async_error last_async_error() const;

 private:
  const NpuProfile profile_;
  const NpuPlacement placement_;
  const DriverFlavour flavour_;
  mutable std::mutex contexts_mutex_;
  std::map<std::uint32_t, std::shared_ptr<HwContext>> contexts_;  // guarded by contexts_mutex_
  std::uint32_t next_context_id_ = 1;                             // guarded by contexts_mutex_
  std::atomic<std::uint8_t> power_mode_{0};
  std::atomic<bool> firmware_hangs_{false};
  mutable std::mutex async_error_mutex_;
  uapi::amdxdna::amdxdna_async_error async_error_{};  // guarded by async_error_mutex_
};

}  // namespace understudy::xdna
