#include "runtime/driver/virtio/virtio_memory.h"

#include <cerrno>

#include "runtime/base/persist.h"
#include "runtime/driver/virtio/virtio_device.h"

namespace hsa_rt::virtio {
namespace {

class NodeMapping final : public DeviceMapping {
 public:
  NodeMapping(HostObject& object, uint32_t node) : object_(object), node_(node) {}
  ~NodeMapping() override {
    persist([this] { return unmap(); });
  }

  // The host maps with the permission the memory was made with.
  Result<void> set_permission(Permission) override { return Errno{EOPNOTSUPP}; }

 protected:
  Result<void> unmap() override {
    if (!mapped_) return {};
    TRY(object_.unmap(node_));
    mapped_ = false;
    return {};
  }

 private:
  HostObject& object_;
  const uint32_t node_;
  bool mapped_ = true;
};

class NodeShare final : public Share {
 public:
  NodeShare(uint32_t node, std::shared_ptr<VirtioMemory> memory)
      : Share(memory, true), node_(node), virtio_memory_(*memory) {}

  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t offset, Permission) override {
    if (span.base != virtio_memory_.fixed_address() || offset != 0) return Errno{EINVAL};
    HostObject& object = virtio_memory_.object();
    TRY(object.map(node_));
    return std::unique_ptr<DeviceMapping>(std::make_unique<NodeMapping>(object, node_));
  }

 private:
  const uint32_t node_;
  VirtioMemory& virtio_memory_;
};

}  // namespace

VirtioMemory::VirtioMemory(VirtioDevice& device, Placement placement, std::shared_ptr<HostObject> object,
                           bool cpu_visible)
    : Memory(device, object->span().size, placement),
      device_(device),
      object_(std::move(object)),
      address_(object_->device_address()),
      cpu_visible_(cpu_visible) {}

VirtioMemory::VirtioMemory(VirtioDevice& device, std::shared_ptr<HostObject> object, uint64_t offset,
                           uint64_t size_bytes)
    : Memory(device, size_bytes, Placement::kHost),
      device_(device),
      object_(std::move(object)),
      address_(object_->device_address() + offset),
      cpu_visible_(false) {}

VirtioMemory::~VirtioMemory() {
  persist([this] { return close(); });
}

Result<CpuSource> VirtioMemory::cpu_source(uint64_t offset) const {
  if (!cpu_visible_) return Errno{EPERM};
  // The kernel maps a blob of the host as a whole or not at all.
  if (offset != 0) return Errno{EOPNOTSUPP};
  return CpuSource{{}, device_.file().fd(), TRY(device_.file().mmap_offset(object_->gem()))};
}

Result<void> VirtioMemory::close() {
  if (object_ != nullptr && object_.use_count() == 1) TRY(object_->close());
  object_.reset();
  return {};
}

std::unique_ptr<Share> share_with(VirtioDevice& accessor, std::shared_ptr<VirtioMemory> memory) {
  return std::make_unique<NodeShare>(accessor.info().node_id, std::move(memory));
}

}  // namespace hsa_rt::virtio
