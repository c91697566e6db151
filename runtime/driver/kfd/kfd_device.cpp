#include "runtime/driver/kfd/kfd_device.h"

#include <cerrno>

#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/kfd_driver.h"
#include "runtime/driver/kfd/kfd_queue.h"
#include "runtime/driver/kfd/sdma_engine.h"
#include "uapi/kfd.h"
#include "uapi/kfd_sysfs.h"

namespace hsa_rt::kfd {
namespace {

constexpr uint32_t kAlways =
    uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;

bool has_public_frame_buffer(const TopologyNode& node) {
  for (const Properties& bank : node.memory_banks) {
    if (bank.get("heap_type") == uapi::kfd_sysfs::HSA_MEM_HEAP_TYPE_FB_PUBLIC) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<KfdDevice>> KfdDevice::create(KfdDriver& driver, const TopologyNode& node,
                                                     DeviceInfo info, std::shared_ptr<RenderFile> file) {
  uapi::kfd::kfd_ioctl_acquire_vm_args acquire{};
  acquire.drm_fd = static_cast<uint32_t>(file->fd());
  acquire.gpu_id = node.gpu_id;
  TRY(driver_ioctl<uapi::kfd::AcquireVm>(driver.kfd_fd(), acquire));

  uapi::kfd::kfd_ioctl_set_memory_policy_args policy{};
  policy.gpu_id = node.gpu_id;
  policy.default_policy = uapi::kfd::KFD_IOC_CACHE_POLICY_NONCOHERENT;
  policy.alternate_policy = uapi::kfd::KFD_IOC_CACHE_POLICY_COHERENT;
  TRY(driver_ioctl<uapi::kfd::SetMemoryPolicy>(driver.kfd_fd(), policy));

  if (const Result<RenderDeviceInfo> device = query_render_device(*file)) {
    info.asic_family = device.value().family;
    info.timestamp_frequency_hz = device.value().counter_frequency_hz;
    if (const std::string name = marketing_name(info.chip_id, device.value().pci_revision); !name.empty()) {
      info.product_name = name;
    }
  }
  return std::make_unique<KfdDevice>(driver, node, std::move(info), std::move(file));
}

KfdDevice::KfdDevice(KfdDriver& driver, const TopologyNode& node, DeviceInfo info,
                     std::shared_ptr<RenderFile> render_file)
    : driver_(driver),
      gpu_id_(node.gpu_id),
      properties_(node.properties),
      info_(std::move(info)),
      render_file_(std::move(render_file)),
      local_memory_cpu_visible_(has_public_frame_buffer(node)) {}

Driver& KfdDevice::driver() const {
  return driver_;
}

int KfdDevice::kfd_fd() const {
  return driver_.kfd_fd();
}

Result<std::shared_ptr<Memory>> KfdDevice::allocate(const AllocationRequest& request) {
  uint32_t flags = kAlways | uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
  switch (request.placement) {
    case Placement::kDevice:
      flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
      if (local_memory_cpu_visible_) flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
      break;
    case Placement::kHost:
      flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_GTT;
      break;
    case Placement::kDeviceHeap:
      return Errno{EOPNOTSUPP};
  }
  if (request.fine_grained || request.uncached) flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
  if (request.uncached) flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED;
  if (request.contiguous) flags |= uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS;
  return allocate_native(request.size_bytes, request.placement, flags, request.bound_address, 0);
}

Result<std::shared_ptr<Memory>> KfdDevice::register_user_memory(const AddressSpan& host,
                                                                uint64_t device_address) {
  const uint32_t flags = kAlways | uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
                         uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_USERPTR |
                         uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
  return allocate_native(host.size, Placement::kHost, flags, device_address, host.base);
}

Result<std::shared_ptr<Memory>> KfdDevice::allocate_native(uint64_t size_bytes, Placement placement,
                                                           uint32_t flags, uint64_t bound_address,
                                                           uint64_t user_address) {
  uapi::kfd::kfd_ioctl_alloc_memory_of_gpu_args args{};
  args.va_addr = bound_address;
  args.size = size_bytes;
  args.gpu_id = gpu_id_;
  args.flags = flags;
  args.mmap_offset = user_address;
  TRY(driver_ioctl<uapi::kfd::AllocMemoryOfGpu>(kfd_fd(), args));
  KfdMemory::Native native;
  native.handle = args.handle;
  native.bound_address = bound_address;
  if (user_address == 0) {
    native.mmap_offset = args.mmap_offset;
    native.cpu_visible = placement == Placement::kHost || local_memory_cpu_visible_;
  }
  return std::shared_ptr<Memory>(std::make_shared<KfdMemory>(*this, size_bytes, placement, native));
}

Result<std::unique_ptr<Share>> KfdDevice::attach(std::shared_ptr<Memory> memory) {
  if (auto kfd_memory = std::dynamic_pointer_cast<KfdMemory>(memory);
      kfd_memory != nullptr && kfd_memory->bound_address() != 0) {
    return share_bound(*this, std::move(kfd_memory));
  }
  if (&memory->device() == this) {
    if (auto* source = dynamic_cast<GemSource*>(memory.get())) {
      std::shared_ptr<GemRef> gem = TRY(source->own_gem());
      return share_gem(*this, std::move(memory), std::move(gem), true);
    }
  }
  std::shared_ptr<GemRef> gem = TRY(render_file_->import_memory(*memory));
  return share_gem(*this, std::move(memory), std::move(gem), false);
}

Result<std::shared_ptr<Memory>> KfdDevice::adopt(int dmabuf_fd, uint64_t size_bytes, Placement placement,
                                                 uint64_t bound_address) {
  const bool cpu_visible = placement == Placement::kHost || local_memory_cpu_visible_;
  if (bound_address == 0) {
    std::shared_ptr<GemRef> gem = TRY(render_file_->import_dmabuf(dmabuf_fd));
    return std::shared_ptr<Memory>(
        std::make_shared<GemMemory>(*this, size_bytes, placement, std::move(gem), cpu_visible));
  }
  uapi::kfd::kfd_ioctl_import_dmabuf_args args{};
  args.va_addr = bound_address;
  args.gpu_id = gpu_id_;
  args.dmabuf_fd = static_cast<uint32_t>(dmabuf_fd);
  TRY(driver_ioctl<uapi::kfd::ImportDmabuf>(kfd_fd(), args));
  KfdMemory::Native native;
  native.handle = args.handle;
  native.bound_address = bound_address;
  native.cpu_visible = cpu_visible;
  return std::shared_ptr<Memory>(std::make_shared<KfdMemory>(*this, size_bytes, placement, native));
}

Result<volatile uint64_t*> KfdDevice::doorbell(uint64_t doorbell_offset) {
  // The kernel hands out the whole slice or nothing; all mappings of it show the same doorbells.
  constexpr uint64_t kSliceBytes = 8192;
  const std::lock_guard guard(doorbells_lock_);
  if (!doorbells_) {
    doorbells_ = TRY(Mapping::map_file(kSliceBytes, PROT_READ | PROT_WRITE, kfd_fd(),
                                       doorbell_offset & ~(kSliceBytes - 1)));
  }
  const uint64_t inside = doorbell_offset & (kSliceBytes - 1);
  return reinterpret_cast<volatile uint64_t*>(static_cast<std::byte*>(doorbells_.address()) + inside);
}

Result<uint64_t> KfdDevice::available_memory_bytes() const {
  uapi::kfd::kfd_ioctl_get_available_memory_args args{};
  args.gpu_id = gpu_id_;
  TRY(driver_ioctl<uapi::kfd::AvailableMemory>(kfd_fd(), args));
  return args.available;
}

Result<ClockCounters> KfdDevice::clock_counters() const {
  uapi::kfd::kfd_ioctl_get_clock_counters_args args{};
  args.gpu_id = gpu_id_;
  TRY(driver_ioctl<uapi::kfd::GetClockCounters>(kfd_fd(), args));
  return ClockCounters{args.gpu_clock_counter, args.cpu_clock_counter, args.system_clock_counter,
                       args.system_clock_freq};
}

Result<std::unique_ptr<AqlQueue>> KfdDevice::create_aql_queue(const AqlQueueRequest& request) {
  return create_kfd_aql_queue(*this, request);
}

Result<std::unique_ptr<CopyEngine>> KfdDevice::create_copy_engine() {
  if (info_.sdma_engines == 0) return Errno{EOPNOTSUPP};
  return create_sdma_engine(*this);
}

}  // namespace hsa_rt::kfd
