// The virtio driver: GPUs of the host, reached from a virtual machine through the ROCm capability set of a
// virtio-gpu. What the KFD driver does with ioctls is done here with calls to the host's KFD library.
//
// The host decides where memory lies: it names a range of addresses when the guest announces itself, the
// range is kept free here, and every allocation gets its place in it. All state belongs to one open file, so
// that hsa_shut_down gives everything back.
//
// What the wire lacks, the driver lacks: no dma-bufs, no waiting on events, no memory without an address, no
// changes to queues on hosts of the earlier layout. docs/virtio-gpu.md lists it.
//
// Errors: errno of the ioctls and of the host's answers. Thread-safe.
// Mirrors: the guest's side of virglrenderer src/rocm.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/virtio/host_channel.h"
#include "runtime/driver/virtio/host_object.h"
#include "runtime/driver/virtio/virtio_file.h"

namespace hsa_rt::virtio {

class VirtioDriver final : public Driver {
 public:
  // ENODEV: there is no virtio-gpu whose host offers the capability set.
  static Result<std::shared_ptr<Driver>> open();

  VirtioDriver(std::unique_ptr<VirtioFile> file, std::unique_ptr<HostChannel> channel, ReservedRange arena);

  DriverId id() const override { return DriverId::kVirtio; }
  std::string_view name() const override { return "virtio"; }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  std::span<const DeviceInfo> host_nodes() const override { return host_nodes_; }
  bool shares_dmabufs() const override { return false; }
  Result<std::shared_ptr<Memory>> import_dmabuf(int, uint64_t) override { return Errno{ENODEV}; }

  VirtioFile& file() { return *file_; }
  HostChannel& channel() { return *channel_; }
  // Where the host places allocations.
  const AddressSpan& arena() const { return arena_.span(); }
  // Names for objects, used once each; the host keeps 0 for the shared pages.
  uint64_t next_blob_id() { return next_blob_id_.fetch_add(1); }

  // Objects by any of their addresses and by resource; null when there is none.
  void remember(const std::shared_ptr<HostObject>& object);
  std::shared_ptr<HostObject> object_at(uint64_t address) const;
  std::shared_ptr<HostObject> object_of(uint32_t resource_id) const;

 private:
  Result<void> discover();

  const std::unique_ptr<VirtioFile> file_;
  const std::unique_ptr<HostChannel> channel_;
  const ReservedRange arena_;
  std::atomic<uint64_t> next_blob_id_{1};
  mutable std::mutex objects_lock_;
  std::map<uint64_t, std::weak_ptr<HostObject>> objects_;  // by address
  std::vector<DeviceInfo> host_nodes_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace hsa_rt::virtio
