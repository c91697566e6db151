#include "sim/virtio_gpu/guest/virtio_gpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/virtio_gpu/guest/virtio_gpu_file.h"
#include "sim/virtio_gpu/guest/virtio_gpu_object.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint32_t kLastCapsetId = 63;  // MAX_CAPSET_ID

drm::DriverIdentity driver_identity() {
  return {.name = "virtio_gpu",
          .description = "virtio GPU",
          .date = "0",
          .version_major = 0,
          .version_minor = 1,
          .version_patchlevel = 0};
}

drm::DriverFeatures driver_features(const KernelFlavour& kernel) {
  drm::DriverFeatures features;
  features.modeset = true;
  // DRM_CAP_*: what is left alone by the driver keeps the core's zero, or 64 for the cursor.
  features.modeset_capabilities = {{0x1, 1},  {0x2, 1},  {0x3, 0},  {0x4, 0},  {0x7, 0}, {0x8, 64},
                                   {0x9, 64}, {0x10, 0}, {0x11, 0}, {0x12, 1}, {0x15, 0}};
  features.syncobj = features.syncobj_timeline = kernel.has_syncobjs;
  return features;
}

}  // namespace

Result<std::shared_ptr<VirtioGpuDevice>> VirtioGpuDevice::create(Machine& machine, Options options,
                                                                 std::unique_ptr<GuestMemory> memory,
                                                                 std::unique_ptr<DeviceModel> device) {
  std::shared_ptr<VirtioGpuDevice> made(
      new VirtioGpuDevice(machine, std::move(options), std::move(memory), std::move(device)));
  TRY(made->probe());
  return made;
}

VirtioGpuDevice::VirtioGpuDevice(Machine& machine, Options options, std::unique_ptr<GuestMemory> memory,
                                 std::unique_ptr<DeviceModel> device)
    : drm::Device(machine, driver_identity(), driver_features(*options.kernel)),
      options_(std::move(options)),
      memory_(std::move(memory)),
      device_(std::move(device)) {}

VirtioGpuDevice::~VirtioGpuDevice() {
  device_->set_interrupt({});
  device_->reset();
}

Result<void> VirtioGpuDevice::probe() {
  const std::uint64_t offered = device_->offered_features();
  if ((offered >> abi::VIRTIO_F_VERSION_1 & 1) == 0) return Errno(ENODEV);
  if (device_->config().num_scanouts == 0) return Errno(EINVAL);
  features_ = offered;
  device_->accept_features(features_);
  region_ = device_->shared_memory(abi::VIRTIO_GPU_SHM_ID_HOST_VISIBLE);
  window_ = std::make_unique<HostWindow>(region_ ? region_->size_bytes() : 0);
  control_ = TRY(ControlQueue::create(*memory_, *device_, fences_));
  device_->set_interrupt([this](QueueIndex queue) {
    if (queue == QueueIndex::kControl) control_->take_answers();
  });
  read_capsets();
  return {};
}

void VirtioGpuDevice::read_capsets() {
  const std::uint32_t count = device_->config().num_capsets;
  std::vector<CapsetAnnouncement> capsets;
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto announced = std::make_shared<CapsetAnnouncement>();
    GetCapsetInfo command;
    command.body.capset_index = index;
    ControlQueue::Entry entry;
    entry.command = encode_command(command);
    entry.response_bytes = sizeof(abi::virtio_gpu_resp_capset_info);
    entry.on_answer = [announced](std::span<const std::byte> response) {
      // The type is not looked at.
      abi::virtio_gpu_resp_capset_info info;
      std::memcpy(&info, response.data(), sizeof info);
      *announced = {info.capset_id, info.capset_max_version, info.capset_max_size};
    };
    control_->queue(std::move(entry));
    control_->notify();
    // One set without an answer, or with a number that cannot be, and there are none at all.
    if (announced->id == 0 || announced->id > kLastCapsetId) return;
    capsets.push_back(*announced);
  }
  capsets_ = std::move(capsets);
}

std::uint64_t VirtioGpuDevice::capset_mask() const {
  std::uint64_t mask = 0;
  for (const CapsetAnnouncement& capset : capsets_) mask |= std::uint64_t{1} << capset.id;
  return mask;
}

CapsetContentRef VirtioGpuDevice::capset_content(const CapsetAnnouncement& capset, std::uint32_t version) {
  CapsetContentRef content;
  {
    const std::lock_guard lock(mutex_);
    CapsetContentRef& cached = capset_contents_[{capset.id, version}];
    if (cached) return cached;
    cached = content = std::make_shared<CapsetContent>();
  }
  GetCapset command;
  command.body.capset_id = capset.id;
  command.body.capset_version = version;
  ControlQueue::Entry entry;
  entry.command = encode_command(command);
  entry.response_bytes = sizeof(abi::virtio_gpu_resp_capset) + capset.max_size_bytes;
  entry.on_answer = [content](std::span<const std::byte> response) {
    // An error answer completes the entry as well, with the zeroes the buffer was made of.
    const auto data = response.subspan(sizeof(abi::virtio_gpu_resp_capset));
    content->bytes.assign(data.begin(), data.end());
    content->arrived->signal();
  };
  control_->queue(std::move(entry));
  control_->notify();
  return content;
}

Contiguity VirtioGpuDevice::next_contiguity() {
  const std::lock_guard lock(mutex_);
  Contiguity contiguity;
  contiguity.seed = machine().random("virtio-gpu pages", placement_count_++);
  return contiguity;
}

std::uint32_t VirtioGpuDevice::next_resource_id() {
  const std::lock_guard lock(mutex_);
  return next_resource_id_++;
}

std::uint32_t VirtioGpuDevice::take_context_id() {
  const std::lock_guard lock(mutex_);
  std::uint32_t id = 1;
  while (context_ids_.contains(id)) ++id;
  context_ids_.insert(id);
  return id;
}

void VirtioGpuDevice::give_back_context_id(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  context_ids_.erase(id);
}

Result<drm::GemRef> VirtioGpuDevice::import_dma_buf(Call& call, drm::DrmFile&, const DmaBufRef& dma_buf) {
  if (auto own = std::dynamic_pointer_cast<VirtioGpuObject>(dma_buf->exporter());
      own && &own->device() == this)
    return drm::GemRef(std::move(own));
  if (!kernel().imports_foreign_buffers || !has_blob() || !dma_buf->buffer()) return Errno(ENODEV);
  return drm::GemRef(TRY(ShmemObject::import(*this, &call, dma_buf)));
}

Result<void> VirtioGpuDevice::object_opened(drm::DrmFile& file, drm::GemObject& object) {
  if (has_3d()) {
    auto& opener = static_cast<VirtioGpuFile&>(file);
    // The context may be missing still when the first call is an import.
    opener.ensure_context();
    CtxAttachResource attach;
    attach.body.hdr.ctx_id = opener.context_id();
    attach.body.resource_id = static_cast<VirtioGpuObject&>(object).resource_id();
    ControlQueue::Entry entry;
    entry.command = encode_command(attach);
    entry.objects.push_back(object.shared_from_this());
    control_->queue(std::move(entry));
  }
  control_->notify();
  return {};
}

void VirtioGpuDevice::object_closed(drm::DrmFile& file, drm::GemObject& object) {
  if (!has_3d()) return;
  CtxDetachResource detach;
  detach.body.hdr.ctx_id = static_cast<VirtioGpuFile&>(file).context_id();
  detach.body.resource_id = static_cast<VirtioGpuObject&>(object).resource_id();
  ControlQueue::Entry entry;
  entry.command = encode_command(detach);
  entry.objects.push_back(object.shared_from_this());
  control_->queue(std::move(entry));
  control_->notify();
}

Result<MmapTarget> VirtioGpuDevice::map_object(Call&, drm::DrmFile&, drm::GemObject& object,
                                               const MmapRequest& request) {
  return static_cast<VirtioGpuObject&>(object).map(request);
}

}  // namespace understudy::virtio_gpu
