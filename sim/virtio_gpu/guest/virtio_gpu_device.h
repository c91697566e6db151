// VirtioGpuDevice: the guest's virtio_gpu driver bound to its device: features, capability sets, queue,
// fences, ids and the host-visible window.
//
// Owner: Machine::keep. Units: bytes. Errors: create() ENODEV when the device does not offer what the driver
// needs. Thread-safety: parts lock themselves. Lock order: file -> device parts; nobody calls the control
// queue with a lock that a fence callback could want. Mirrors: virtio/virtgpu_drv.c, virtgpu_kms.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/drm/device.h"
#include "sim/drm/fence.h"
#include "sim/virtio_gpu/device/device_model.h"
#include "sim/virtio_gpu/guest/control_queue.h"
#include "sim/virtio_gpu/guest/fence_timeline.h"
#include "sim/virtio_gpu/guest/host_window.h"
#include "sim/virtio_gpu/guest/kernel_flavour.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

// One capability set as the device announced it at probe.
struct CapsetAnnouncement {
  std::uint32_t id = 0;
  std::uint32_t max_version = 0;
  std::uint32_t max_size_bytes = 0;
};

// The content of a set, asked for once per version. The bytes are there when the fence has signalled.
struct CapsetContent {
  drm::FenceRef arrived = std::make_shared<drm::Fence>("virtio_gpu", "capset");
  std::vector<std::byte> bytes;
};
using CapsetContentRef = std::shared_ptr<CapsetContent>;

class VirtioGpuDevice : public drm::Device {
 public:
  struct Options {
    const KernelFlavour* kernel = nullptr;
    std::uint64_t guest_memory_bytes = std::uint64_t{8} << 30;
    std::string pci_slot = "0000:00:04.0";
    std::string label = "dri/renderD128";
  };

  // `memory` is the guest's, `device` what is plugged in; both are kept. Runs the probe.
  static Result<std::shared_ptr<VirtioGpuDevice>> create(Machine& machine, Options options,
                                                         std::unique_ptr<GuestMemory> memory,
                                                         std::unique_ptr<DeviceModel> device);
  ~VirtioGpuDevice() override;

  // drm::Device
  std::string unique() const override { return "pci:" + options_.pci_slot; }
  std::span<const IoctlRow> driver_ioctls() const override { return options_.kernel->ioctls(); }
  Result<drm::GemRef> import_dma_buf(Call& call, drm::DrmFile& file, const DmaBufRef& dma_buf) override;
  Result<void> object_opened(drm::DrmFile& file, drm::GemObject& object) override;
  void object_closed(drm::DrmFile& file, drm::GemObject& object) override;
  Result<MmapTarget> map_object(Call& call, drm::DrmFile& file, drm::GemObject& object,
                                const MmapRequest& request) override;

  const KernelFlavour& kernel() const { return *options_.kernel; }
  const std::string& label() const { return options_.label; }
  const std::string& pci_slot() const { return options_.pci_slot; }
  bool has_3d() const { return has_feature(abi::VIRTIO_GPU_F_VIRGL); }
  bool has_blob() const { return has_feature(abi::VIRTIO_GPU_F_RESOURCE_BLOB); }
  bool has_context_init() const { return has_feature(abi::VIRTIO_GPU_F_CONTEXT_INIT); }
  bool has_uuid() const { return has_feature(abi::VIRTIO_GPU_F_RESOURCE_UUID); }
  bool has_host_visible() const { return region_ != nullptr; }

  GuestMemory& memory() { return *memory_; }
  DeviceModel& device_model() { return *device_; }
  ControlQueue& control() { return *control_; }
  FenceTimeline& fences() { return fences_; }
  HostWindow& window() { return *window_; }
  // How the allocator laid the pages of the next object out.
  Contiguity next_contiguity();

  const std::vector<CapsetAnnouncement>& capsets() const { return capsets_; }
  std::uint64_t capset_mask() const;
  // The content of an announced set; asks the device the first time.
  CapsetContentRef capset_content(const CapsetAnnouncement& capset, std::uint32_t version);

  // Numbers start behind the console's framebuffer and are not used again.
  std::uint32_t next_resource_id();
  // Lowest free, from 1.
  std::uint32_t take_context_id();
  void give_back_context_id(std::uint32_t id);

  // A mapping of the blob at that place of the window.
  Result<MmapTarget> open_window(std::uint64_t offset_bytes) const { return region_->open(offset_bytes); }

 private:
  VirtioGpuDevice(Machine& machine, Options options, std::unique_ptr<GuestMemory> memory,
                  std::unique_ptr<DeviceModel> device);
  Result<void> probe();
  void read_capsets();
  bool has_feature(std::uint32_t feature) const { return (features_ >> feature & 1) != 0; }

  const Options options_;
  const std::unique_ptr<GuestMemory> memory_;
  const std::unique_ptr<DeviceModel> device_;
  std::uint64_t features_ = 0;
  HostVisibleRegion* region_ = nullptr;
  FenceTimeline fences_;
  std::unique_ptr<HostWindow> window_;
  // Goes first: what it still holds refers to the members above.
  std::unique_ptr<ControlQueue> control_;
  std::vector<CapsetAnnouncement> capsets_;  // fixed after the probe

  std::mutex mutex_;                                                                     // guards the rest
  std::map<std::pair<std::uint32_t, std::uint32_t>, CapsetContentRef> capset_contents_;  // (id, version)
  std::uint32_t next_resource_id_ = 3;
  std::set<std::uint32_t> context_ids_;
  std::uint64_t placement_count_ = 0;
};

}  // namespace understudy::virtio_gpu
