#include "runtime/driver/kfd/kfd_queue.h"

#include <algorithm>
#include <cerrno>

#include "runtime/base/persist.h"
#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/kfd_device.h"
#include "uapi/kfd.h"

namespace hsa_rt::kfd {
namespace {

constexpr uint32_t kFullPercentage = uapi::kfd::KFD_MAX_QUEUE_PERCENTAGE;

uint32_t kfd_priority(QueuePriority priority) {
  switch (priority) {
    case QueuePriority::kLow:
      return 0;
    case QueuePriority::kNormal:
      return 7;
    case QueuePriority::kHigh:
      return uapi::kfd::KFD_MAX_QUEUE_PRIORITY;
  }
  return 7;
}

class KfdAqlQueue final : public AqlQueue {
 public:
  KfdAqlQueue(KfdDevice& device, const AqlQueueRequest& request, uint32_t queue_id,
              volatile uint64_t* doorbell, DeviceBuffer end_of_pipe, std::optional<DeviceBuffer> save_area)
      : device_(device),
        request_(request),
        queue_id_(queue_id),
        doorbell_(doorbell),
        end_of_pipe_(std::move(end_of_pipe)),
        save_area_(std::move(save_area)) {}

  // The queue must be off the hardware before its buffers go; members are destroyed after this.
  ~KfdAqlQueue() override { destroy_queue(device_.kfd_fd(), queue_id_); }

  uint64_t id() const override { return queue_id_; }
  volatile uint64_t* doorbell() const override { return doorbell_; }

  Result<void> set_priority(QueuePriority priority) override { return update(kFullPercentage, priority); }
  Result<void> inactivate() override { return update(0, priority_); }

  Result<void> set_cu_mask(std::span<const uint32_t> mask) override {
    uapi::kfd::kfd_ioctl_set_cu_mask_args args{};
    args.queue_id = queue_id_;
    args.num_cu_mask = static_cast<uint32_t>(mask.size() * 32);
    args.cu_mask_ptr = reinterpret_cast<uint64_t>(mask.data());
    return driver_ioctl<uapi::kfd::SetCuMask>(device_.kfd_fd(), args);
  }

 private:
  // The ioctl sets everything at once; what should stay must be said again.
  Result<void> update(uint32_t percentage, QueuePriority priority) {
    uapi::kfd::kfd_ioctl_update_queue_args args{};
    args.queue_id = queue_id_;
    args.ring_base_address = request_.ring_address;
    args.ring_size = request_.ring_bytes;
    args.queue_percentage = percentage;
    args.queue_priority = kfd_priority(priority);
    TRY(driver_ioctl<uapi::kfd::UpdateQueue>(device_.kfd_fd(), args));
    priority_ = priority;
    return {};
  }

  KfdDevice& device_;
  const AqlQueueRequest request_;
  const uint32_t queue_id_;
  volatile uint64_t* const doorbell_;
  QueuePriority priority_ = QueuePriority::kNormal;
  const DeviceBuffer end_of_pipe_;
  const std::optional<DeviceBuffer> save_area_;
};

// Each XCC's part of the save area begins with a header that tells the firmware where errors go.
void write_save_area_headers(const DeviceBuffer& area, const SaveAreaSizes& sizes,
                             const AqlQueueRequest& request) {
  for (uint32_t xcc = 0; xcc < sizes.xcc_count; ++xcc) {
    auto* header = reinterpret_cast<uapi::kfd::kfd_context_save_area_header*>(
        area.address() + uint64_t{xcc} * sizes.context_bytes);
    header->debug_offset = (sizes.xcc_count - xcc) * sizes.context_bytes;
    header->debug_size = sizes.debug_bytes * sizes.xcc_count;
    header->err_payload_addr = request.error_reason_address;
    header->err_event_id = request.error_event_id;
  }
}

}  // namespace

void destroy_queue(int kfd_fd, uint32_t queue_id) {
  uapi::kfd::kfd_ioctl_destroy_queue_args args{};
  args.queue_id = queue_id;
  persist([&] {
    const Result<void> destroyed = driver_ioctl<uapi::kfd::DestroyQueue>(kfd_fd, args);
    // After a failed preemption the queue is gone all the same, and its number may already be another's.
    return destroyed || destroyed.error().value == ETIME || destroyed.error().value == EIO ||
           destroyed.error().value == EINVAL;
  });
}

Result<std::unique_ptr<AqlQueue>> create_kfd_aql_queue(KfdDevice& device, const AqlQueueRequest& request) {
  KfdDevice* const only_here[] = {&device};

  AllocationRequest end_of_pipe_request;
  end_of_pipe_request.size_bytes = kPageBytes;
  end_of_pipe_request.placement = Placement::kDevice;
  DeviceBuffer end_of_pipe = TRY(DeviceBuffer::create(device, end_of_pipe_request, only_here, false));

  const SaveAreaSizes sizes = save_area_sizes(device.properties());
  std::optional<DeviceBuffer> save_area;
  if (sizes.context_bytes != 0) {
    AllocationRequest save_request;
    save_request.size_bytes = sizes.total_bytes();
    save_request.placement = Placement::kHost;
    save_area = TRY(DeviceBuffer::create(device, save_request, only_here, true));
    write_save_area_headers(*save_area, sizes, request);
  }

  uapi::kfd::kfd_ioctl_create_queue_args args{};
  args.ring_base_address = request.ring_address;
  args.ring_size = request.ring_bytes;
  args.write_pointer_address = request.write_index_address;
  args.read_pointer_address = request.read_index_address;
  args.gpu_id = device.gpu_id();
  args.queue_type = uapi::kfd::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
  args.queue_percentage = kFullPercentage;
  args.queue_priority = kfd_priority(QueuePriority::kNormal);
  args.eop_buffer_address = end_of_pipe.address();
  args.eop_buffer_size = end_of_pipe.size_bytes();
  if (save_area) {
    args.ctx_save_restore_address = save_area->address();
    args.ctx_save_restore_size = sizes.context_bytes;
    args.ctl_stack_size = sizes.control_stack_bytes;
  }
  TRY(driver_ioctl<uapi::kfd::CreateQueue>(device.kfd_fd(), args));
  const Result<volatile uint64_t*> doorbell = device.doorbell(args.doorbell_offset);
  if (!doorbell) {
    destroy_queue(device.kfd_fd(), args.queue_id);
    return doorbell.error();
  }
  return std::unique_ptr<AqlQueue>(std::make_unique<KfdAqlQueue>(
      device, request, args.queue_id, doorbell.value(), std::move(end_of_pipe), std::move(save_area)));
}

uint64_t SaveAreaSizes::total_bytes() const {
  const uint64_t bytes = (uint64_t{context_bytes} + debug_bytes) * xcc_count;
  return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

// kfd_queue.c: kfd_queue_ctx_save_restore_size.
SaveAreaSizes save_area_sizes(const Properties& node) {
  constexpr uint32_t kDebugBytesPerWave = 32;
  SaveAreaSizes sizes;
  sizes.context_bytes = node.get32("cwsr_size");
  sizes.control_stack_bytes = node.get32("ctl_stack_size");
  sizes.xcc_count = std::max(1u, node.get32("num_xcc", 1));
  const uint32_t simds_per_cu = std::max(1u, node.get32("simd_per_cu"));
  const uint32_t compute_units = node.get32("simd_count") / simds_per_cu / sizes.xcc_count;
  const uint32_t engines = node.get32("array_count") / std::max(1u, node.get32("simd_arrays_per_engine"));
  const uint32_t waves = node.get32("gfx_target_version") < 100100
                             ? std::min(compute_units * 40, engines * 512)
                             : compute_units * 32;
  sizes.debug_bytes = (waves * kDebugBytesPerWave + 63) & ~63u;
  return sizes;
}

}  // namespace hsa_rt::kfd
