#include "runtime/driver/virtio/virtio_queue.h"

#include <cerrno>

#include "runtime/base/persist.h"
#include "runtime/driver/amdgpu/sdma_ring.h"
#include "runtime/driver/virtio/virtio_device.h"

namespace hsa_rt::virtio {
namespace {

using amdgpu::SdmaRing;

constexpr uint32_t kFullPercentage = 100;
constexpr uint32_t kAnySdmaEngine = UINT32_MAX;

int32_t host_priority(QueuePriority priority) {
  switch (priority) {
    case QueuePriority::kLow:
      return vhsakmt::HSA_QUEUE_PRIORITY_MINIMUM;
    case QueuePriority::kNormal:
      return vhsakmt::HSA_QUEUE_PRIORITY_NORMAL;
    case QueuePriority::kHigh:
      return vhsakmt::HSA_QUEUE_PRIORITY_MAXIMUM;
  }
  return vhsakmt::HSA_QUEUE_PRIORITY_NORMAL;
}

QueueRequest queue_request(VirtioDevice& device, uint32_t type, QueuePriority priority, uint64_t ring_address,
                           uint64_t ring_bytes) {
  QueueRequest request{};
  request.blob_id = device.virtio_driver().next_blob_id();
  auto& args = request.create_queue_args;
  args.Type = type;
  args.QueuePercentage = kFullPercentage;
  args.Priority = host_priority(priority);
  args.SdmaEngineId = kAnySdmaEngine;
  args.QueueAddress = ring_address;
  args.QueueSizeInBytes = ring_bytes;
  return request;
}

// A queue of the host and the resource that stands for it.
class HostQueue {
 public:
  static Result<HostQueue> create(VirtioDevice& device, const QueueRequest& request) {
    HostQueue queue(device.channel());
    const VirtioDevice::NewQueue made = TRY(device.create_host_queue(request));
    queue.resource_ = made.resource;
    queue.doorbell_ = made.doorbell;
    queue.blob_ = TRY(device.file().create_host_blob(
        request.blob_id, request.create_queue_args.QueueSizeInBytes, /*mappable=*/false));
    return queue;
  }

  HostQueue(HostQueue&& other) noexcept
      : channel_(other.channel_),
        resource_(std::exchange(other.resource_, {})),
        doorbell_(other.doorbell_),
        blob_(std::move(other.blob_)) {}
  HostQueue& operator=(HostQueue&&) = delete;
  ~HostQueue() {
    if (resource_.queue_handle != 0) destroy_host_queue(channel_, resource_.queue_handle, blob_.resource_id);
  }

  HostChannel& channel() const { return channel_; }
  const vhsakmt::vHsaQueueResource& resource() const { return resource_; }
  uint32_t resource_id() const { return blob_.resource_id; }
  volatile uint64_t* doorbell() const { return doorbell_; }

 private:
  explicit HostQueue(HostChannel& channel) : channel_(channel) {}

  HostChannel& channel_;
  vhsakmt::vHsaQueueResource resource_{};
  volatile uint64_t* doorbell_ = nullptr;
  VirtioFile::Blob blob_;
};

class VirtioAqlQueue final : public AqlQueue {
 public:
  VirtioAqlQueue(HostQueue queue, const AqlQueueRequest& request)
      : queue_(std::move(queue)), request_(request) {}

  uint64_t id() const override { return queue_.resource().queue_handle; }
  volatile uint64_t* doorbell() const override { return queue_.doorbell(); }
  Result<void> set_priority(QueuePriority priority) override { return update(kFullPercentage, priority); }
  Result<void> inactivate() override { return update(0, priority_); }

  Result<void> set_cu_mask(std::span<const uint32_t> mask) override {
    constexpr uint32_t kBitsPerWord = 32;
    QueueRequest request{};
    request.type = later::VHSAKMT_CCMD_QUEUE_SET_CU_MASK;
    request.res_id = queue_.resource_id();
    request.CUMaskCount = static_cast<uint32_t>(mask.size() * kBitsPerWord);
    QueueAnswer answer{};
    return queue_.channel().queue(request, answer, mask);
  }

 private:
  Result<void> update(uint32_t percentage, QueuePriority priority) {
    QueueRequest request{};
    request.type = later::VHSAKMT_CCMD_QUEUE_UPDATE;
    request.res_id = queue_.resource_id();
    auto& args = request.update_queue_args;
    args.QueueId = queue_.resource().queue_handle;
    args.QueuePercentage = percentage;
    args.Priority = host_priority(priority);
    args.QueueAddress = request_.ring_address;
    args.QueueSizeInBytes = request_.ring_bytes;
    QueueAnswer answer{};
    TRY(queue_.channel().queue(request, answer));
    priority_ = priority;
    return {};
  }

  const HostQueue queue_;
  const AqlQueueRequest request_;
  QueuePriority priority_ = QueuePriority::kNormal;
};

// Memory of the driver's own: on one GPU at the host's address, for the CPU wherever there is room.
struct DriverPages {
  static Result<DriverPages> create(VirtioDevice& device, uint64_t size_bytes) {
    AllocationRequest request;
    request.size_bytes = size_bytes;
    request.placement = Placement::kHost;
    request.uncached = true;
    request.bound_address = AllocationRequest::kPlacedByDevice;
    DriverPages pages;
    pages.memory = TRY(device.allocate(request));
    pages.share = TRY(device.attach(pages.memory));
    pages.on_gpu =
        TRY(pages.share->map({pages.memory->fixed_address(), size_bytes}, 0, Permission::kReadWrite));
    const CpuSource source = TRY(pages.memory->cpu_source(0));
    pages.on_cpu = TRY(Mapping::map_file(size_bytes, PROT_READ | PROT_WRITE, source.fd, source.file_offset));
    return pages;
  }

  std::shared_ptr<Memory> memory;
  std::unique_ptr<Share> share;
  std::unique_ptr<DeviceMapping> on_gpu;
  Mapping on_cpu;
};

class VirtioCopyEngine final : public CopyEngine {
 public:
  VirtioCopyEngine(const VirtioDevice& device, DriverPages ring_pages, HostQueue queue,
                   VirtioFile::Blob pointers_blob, Mapping pointers)
      : ring_pages_(std::move(ring_pages)),
        pointers_blob_(std::move(pointers_blob)),
        pointers_(std::move(pointers)),
        queue_(std::move(queue)),
        ring_({ring_pages_.on_cpu.address(), pointer_at(queue_.resource().host_read_offset),
               pointer_at(queue_.resource().host_write_offset), queue_.doorbell()},
              device.gfx_version(), device.info()) {}

  Result<void> submit(const CopyJob& job) override {
    ring_.submit(job);
    return {};
  }

 private:
  std::atomic<uint64_t>* pointer_at(uint64_t offset) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(static_cast<std::byte*>(pointers_.address()) + offset);
  }

  // The queue goes first.
  const DriverPages ring_pages_;
  const VirtioFile::Blob pointers_blob_;
  const Mapping pointers_;
  const HostQueue queue_;
  SdmaRing ring_;
};

}  // namespace

void destroy_host_queue(HostChannel& channel, uint64_t queue_handle, uint32_t resource_id) {
  QueueRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_QUEUE_DESTROY;
  request.QueueId = queue_handle;
  request.res_id = resource_id;
  QueueAnswer answer{};
  persist([&] { return channel.queue(request, answer); });
}

Result<std::unique_ptr<AqlQueue>> create_virtio_aql_queue(VirtioDevice& device,
                                                          const AqlQueueRequest& request) {
  // The host keeps the memory until the queue is gone, whatever the guest does.
  const std::shared_ptr<HostObject> ring = device.virtio_driver().object_at(request.ring_address);
  const std::shared_ptr<HostObject> indices = device.virtio_driver().object_at(request.read_index_address);
  if (ring == nullptr || indices == nullptr) return Errno{EINVAL};
  QueueRequest ask = queue_request(device, vhsakmt::HSA_QUEUE_COMPUTE_AQL, QueuePriority::kNormal,
                                   request.ring_address, request.ring_bytes);
  ask.create_queue_args.Queue_read_ptr_aql = request.read_index_address;
  ask.create_queue_args.Queue_write_ptr_aql = request.write_index_address;
  ask.res_id = indices->resource_id();
  ask.queue_mem_res_id = ring->resource_id();
  return std::unique_ptr<AqlQueue>(
      std::make_unique<VirtioAqlQueue>(TRY(HostQueue::create(device, ask)), request));
}

Result<std::unique_ptr<CopyEngine>> create_virtio_copy_engine(VirtioDevice& device) {
  DriverPages ring = TRY(DriverPages::create(device, SdmaRing::kBytes));
  QueueRequest ask = queue_request(device, vhsakmt::HSA_QUEUE_SDMA, QueuePriority::kHigh,
                                   ring.memory->fixed_address(), SdmaRing::kBytes);
  ask.rw_ptr_blob_id = device.virtio_driver().next_blob_id();
  HostQueue queue = TRY(HostQueue::create(device, ask));
  const auto& resource = queue.resource();
  if (resource.host_read_offset > kPageBytes - sizeof(uint64_t) ||
      resource.host_write_offset > kPageBytes - sizeof(uint64_t)) {
    return Errno{EPROTO};
  }
  VirtioFile::Blob blob =
      TRY(device.file().create_host_blob(ask.rw_ptr_blob_id, kPageBytes, /*mappable=*/true));
  const uint64_t offset = TRY(device.file().mmap_offset(*blob.gem));
  Mapping pointers = TRY(Mapping::map_file(kPageBytes, PROT_READ | PROT_WRITE, device.file().fd(), offset));
  return std::unique_ptr<CopyEngine>(std::make_unique<VirtioCopyEngine>(
      device, std::move(ring), std::move(queue), std::move(blob), std::move(pointers)));
}

}  // namespace hsa_rt::virtio
