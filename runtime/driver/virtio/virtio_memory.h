// VirtioMemory: memory of the virtio driver, a HostObject or a part of one. It is bound: devices see it at
// the host's address and nowhere else.
//
// Owner: the core, by shared_ptr. Thread-safe as Memory demands.
#pragma once

#include <memory>

#include "runtime/driver/memory.h"
#include "runtime/driver/virtio/host_object.h"

namespace hsa_rt::virtio {

class VirtioDevice;

class VirtioMemory final : public Memory {
 public:
  // All of the object. The CPU can map it if `cpu_visible`.
  VirtioMemory(VirtioDevice& device, Placement placement, std::shared_ptr<HostObject> object,
               bool cpu_visible);
  // The process's pages in [offset, offset + size_bytes) of the object, which the CPU has anyway.
  VirtioMemory(VirtioDevice& device, std::shared_ptr<HostObject> object, uint64_t offset,
               uint64_t size_bytes);
  ~VirtioMemory() override;

  Result<UniqueFd> export_dmabuf() const override { return Errno{EOPNOTSUPP}; }
  Result<CpuSource> cpu_source(uint64_t offset) const override;
  uint64_t fixed_address() const override { return address_; }

  HostObject& object() const { return *object_; }

 protected:
  Result<void> close() override;

 private:
  VirtioDevice& device_;
  std::shared_ptr<HostObject> object_;
  const uint64_t address_;
  const bool cpu_visible_;
};

// `accessor`'s right to use a memory of any device of the driver.
std::unique_ptr<Share> share_with(VirtioDevice& accessor, std::shared_ptr<VirtioMemory> memory);

}  // namespace hsa_rt::virtio
