#include "runtime/driver/kfd/sdma_engine.h"

#include "runtime/driver/amdgpu/sdma_ring.h"
#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/device_buffer.h"
#include "runtime/driver/kfd/kfd_device.h"
#include "runtime/driver/kfd/kfd_queue.h"
#include "uapi/kfd.h"

namespace hsa_rt::kfd {
namespace {

using amdgpu::SdmaRing;

// The pointers share a page, on cache lines of their own.
constexpr uint64_t kReadPointerOffset = 0;
constexpr uint64_t kWritePointerOffset = 128;

std::atomic<uint64_t>* pointer_at(uint64_t address) {
  return reinterpret_cast<std::atomic<uint64_t>*>(address);
}

class SdmaEngine final : public CopyEngine {
 public:
  SdmaEngine(KfdDevice& device, DeviceBuffer ring, DeviceBuffer pointers, uint32_t queue_id,
             volatile uint64_t* doorbell)
      : device_(device),
        ring_memory_(std::move(ring)),
        pointers_(std::move(pointers)),
        queue_id_(queue_id),
        ring_({ring_memory_.data(), pointer_at(pointers_.address() + kReadPointerOffset),
               pointer_at(pointers_.address() + kWritePointerOffset), doorbell},
              device.properties().get32("gfx_target_version"), device.info()) {}

  ~SdmaEngine() override { destroy_queue(device_.kfd_fd(), queue_id_); }

  Result<void> submit(const CopyJob& job) override {
    ring_.submit(job);
    return {};
  }

 private:
  KfdDevice& device_;
  const DeviceBuffer ring_memory_;
  const DeviceBuffer pointers_;
  const uint32_t queue_id_;
  SdmaRing ring_;
};

}  // namespace

Result<std::unique_ptr<CopyEngine>> create_sdma_engine(KfdDevice& device) {
  KfdDevice* const only_here[] = {&device};
  AllocationRequest host_memory;
  host_memory.placement = Placement::kHost;
  host_memory.uncached = true;
  host_memory.size_bytes = SdmaRing::kBytes;
  DeviceBuffer ring = TRY(DeviceBuffer::create(device, host_memory, only_here, true));
  host_memory.size_bytes = kPageBytes;
  DeviceBuffer pointers = TRY(DeviceBuffer::create(device, host_memory, only_here, true));

  uapi::kfd::kfd_ioctl_create_queue_args args{};
  args.ring_base_address = ring.address();
  args.ring_size = static_cast<uint32_t>(SdmaRing::kBytes);
  args.read_pointer_address = pointers.address() + kReadPointerOffset;
  args.write_pointer_address = pointers.address() + kWritePointerOffset;
  args.gpu_id = device.gpu_id();
  args.queue_type = uapi::kfd::KFD_IOC_QUEUE_TYPE_SDMA;
  args.queue_percentage = uapi::kfd::KFD_MAX_QUEUE_PERCENTAGE;
  args.queue_priority = uapi::kfd::KFD_MAX_QUEUE_PRIORITY;
  TRY(driver_ioctl<uapi::kfd::CreateQueue>(device.kfd_fd(), args));
  const Result<volatile uint64_t*> doorbell = device.doorbell(args.doorbell_offset);
  if (!doorbell) {
    destroy_queue(device.kfd_fd(), args.queue_id);
    return doorbell.error();
  }
  return std::unique_ptr<CopyEngine>(std::make_unique<SdmaEngine>(
      device, std::move(ring), std::move(pointers), args.queue_id, doorbell.value()));
}

}  // namespace hsa_rt::kfd
