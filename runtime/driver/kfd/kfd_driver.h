// The KFD driver: /dev/kfd, and a render node for each GPU.
//
// KFD keeps its state per address space, not per open file: closing /dev/kfd frees nothing, and the address
// space of a GPU stays tied to the first render file it was given. So there is one KfdDriver per process,
// made at the first hsa_init and kept until the process ends; a forked child, which has no KFD state, makes
// its own.
//
// Errors: errno of open and of the ioctls. Thread-safe.
// Mirrors: drivers/gpu/drm/amd/amdkfd/kfd_chardev.c.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/driver/driver.h"
#include "runtime/driver/kfd/kfd_device.h"
#include "runtime/driver/kfd/kfd_events.h"

namespace hsa_rt::kfd {

class KfdDriver final : public Driver, public SvmRanges {
 public:
  // This process's driver. ENOENT (or ENXIO): there is no KFD here.
  static Result<std::shared_ptr<Driver>> of_process();

  explicit KfdDriver(UniqueFd kfd) : kfd_(std::move(kfd)), events_(*this) {}

  DriverId id() const override { return DriverId::kKfd; }
  std::string_view name() const override { return "kfd"; }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  std::span<const DeviceInfo> host_nodes() const override { return host_nodes_; }
  Result<std::shared_ptr<Memory>> import_dmabuf(int dmabuf_fd, uint64_t bound_address) override;
  Result<std::vector<uint8_t>> dmabuf_metadata(int dmabuf_fd) override;
  // Without a GPU there is no memory that could hold the signal slots.
  EventSource* events() override { return gpus_.empty() ? nullptr : &events_; }
  // Offered when every GPU can take part.
  SvmRanges* svm() override;

  Result<void> set_attributes(const AddressSpan& span, std::span<const SvmSetting> settings) override;
  Result<void> get_attributes(const AddressSpan& span, std::span<SvmSetting> settings) override;

  int kfd_fd() const { return kfd_.get(); }
  uint32_t interface_minor() const { return interface_minor_; }
  std::span<KfdDevice* const> gpus() const { return gpus_; }
  KfdDevice* gpu_by_id(uint32_t gpu_id) const;

 private:
  // May be repeated after a failure; what was opened stays open.
  Result<void> discover();

  const UniqueFd kfd_;
  uint32_t interface_minor_ = 0;
  bool complete_ = false;
  std::vector<DeviceInfo> host_nodes_;
  std::map<uint32_t, std::shared_ptr<RenderFile>> render_files_;  // by gpu_id
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<KfdDevice*> gpus_;  // devices_ by their own type
  KfdEvents events_;
};

// The name libdrm's device table has for a chip, or nothing.
std::string marketing_name(uint32_t device_id, uint32_t pci_revision,
                           const char* table_path = "/usr/share/libdrm/amdgpu.ids");

}  // namespace hsa_rt::kfd
