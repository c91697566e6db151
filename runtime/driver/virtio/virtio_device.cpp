#include "runtime/driver/virtio/virtio_device.h"

#include <cerrno>

#include "runtime/driver/virtio/virtio_memory.h"
#include "runtime/driver/virtio/virtio_queue.h"

namespace hsa_rt::virtio {
namespace {

// Older chips have doorbells of half the size.
constexpr uint32_t kLastWithSmallDoorbells = 90000;
constexpr uint64_t kDoorbellBytes = 8192;
constexpr uint64_t kSmallDoorbellBytes = 4096;

}  // namespace

VirtioDevice::VirtioDevice(VirtioDriver& driver, uint32_t gfx_version, DeviceInfo info)
    : driver_(driver), gfx_version_(gfx_version), info_(std::move(info)) {
  for (const PoolInfo& pool : info_.pools)
    local_memory_cpu_visible_ |= pool.placement == Placement::kDevice && pool.cpu_visible;
}

Result<std::shared_ptr<Memory>> VirtioDevice::allocate(const AllocationRequest& request) {
  if (request.bound_address != AllocationRequest::kPlacedByDevice ||
      request.placement == Placement::kDeviceHeap) {
    return Errno{EOPNOTSUPP};
  }
  const bool local = request.placement == Placement::kDevice;
  const bool cpu_visible = !local || local_memory_cpu_visible_;
  vhsakmt::HsaMemFlags flags{};
  flags.ui32.NonPaged = local;
  flags.ui32.NoSubstitute = local;
  flags.ui32.HostAccess = cpu_visible;
  flags.ui32.ExecuteAccess = 1;
  flags.ui32.CoarseGrain = !request.fine_grained && !request.uncached;
  flags.ui32.Uncached = request.uncached;
  flags.ui32.Contiguous = request.contiguous;
  std::shared_ptr<HostObject> object = TRY(allocate_on_host(
      request.size_bytes, local ? info_.node_id : info_.nearest_cpu_node, flags, cpu_visible));
  return std::shared_ptr<Memory>(
      std::make_shared<VirtioMemory>(*this, request.placement, std::move(object), cpu_visible));
}

Result<std::shared_ptr<HostObject>> VirtioDevice::allocate_on_host(uint64_t size_bytes, uint32_t node,
                                                                   const vhsakmt::HsaMemFlags& flags,
                                                                   bool mappable) {
  MemoryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_ALLOC;
  request.blob_id = driver_.next_blob_id();
  request.alloc_args.PreferredNode = node;
  request.alloc_args.MemFlags = flags;
  request.alloc_args.SizeInBytes = size_bytes;
  MemoryAnswer answer{};
  TRY(channel().memory(request, answer));
  const uint64_t address = answer.memory_handle;
  if (address == 0) return Errno{ENOMEM};  // memory at an address other than the host wanted

  AddressSpan span;
  const bool in_arena = AddressSpan::make(address, size_bytes, span) && driver_.arena().contains(span);
  Result<VirtioFile::Blob> blob =
      in_arena ? file().create_host_blob(request.blob_id, size_bytes, mappable) : Errno{EPROTO};
  if (!blob) {
    MemoryRequest give_back{};
    give_back.type = vhsakmt::VHSAKMT_CCMD_MEMORY_FREE;
    give_back.free_args.MemoryAddress = address;
    give_back.free_args.SizeInBytes = size_bytes;
    (void)channel().memory(give_back, answer);
    return blob.error();
  }
  auto object = std::make_shared<HostObject>(channel(), std::move(blob).value(), span);
  driver_.remember(object);
  return object;
}

Result<std::shared_ptr<Memory>> VirtioDevice::register_user_memory(const AddressSpan& host,
                                                                   uint64_t device_address) {
  if (device_address != AllocationRequest::kPlacedByDevice) return Errno{EINVAL};
  const uint64_t blob_id = driver_.next_blob_id();
  Result<VirtioFile::UserBlob> made = file().create_user_blob(blob_id, host, /*read_only=*/false);
  // Pages the process itself may only read.
  if (!made && made.error().value == EFAULT)
    made = file().create_user_blob(blob_id, host, /*read_only=*/true);
  VirtioFile::UserBlob pages = TRY(std::move(made));

  std::shared_ptr<HostObject> object;
  if (pages.known) object = driver_.object_of(pages.blob.resource_id);
  if (object == nullptr) {
    object = TRY(HostObject::register_user_pages(channel(), std::move(pages.blob), host.size, info_.node_id));
    driver_.remember(object);
  }
  return std::shared_ptr<Memory>(
      std::make_shared<VirtioMemory>(*this, std::move(object), pages.offset, host.size));
}

Result<std::unique_ptr<Share>> VirtioDevice::attach(std::shared_ptr<Memory> memory) {
  auto ours = std::dynamic_pointer_cast<VirtioMemory>(std::move(memory));
  if (ours == nullptr) return Errno{EOPNOTSUPP};
  return share_with(*this, std::move(ours));
}

Result<uint64_t> VirtioDevice::available_memory_bytes() const {
  MemoryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_AVAIL_MEM;
  request.Node = info_.node_id;
  MemoryAnswer answer{};
  TRY(channel().memory(request, answer));
  return answer.available_bytes;
}

Result<ClockCounters> VirtioDevice::clock_counters() const {
  QueryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_QUERY_GET_CLOCK_COUNTERS;
  request.NodeID = info_.node_id;
  QueryAnswer answer{};
  TRY(channel().query(request, answer));
  const vhsakmt::HsaClockCounters& counters = answer.clock_counters;
  return ClockCounters{counters.GPUClockCounter, counters.CPUClockCounter, counters.SystemClockCounter,
                       counters.SystemClockFrequencyHz};
}

Result<std::unique_ptr<AqlQueue>> VirtioDevice::create_aql_queue(const AqlQueueRequest& request) {
  return create_virtio_aql_queue(*this, request);
}

Result<std::unique_ptr<CopyEngine>> VirtioDevice::create_copy_engine() {
  if (info_.sdma_engines == 0) return Errno{EOPNOTSUPP};
  return create_virtio_copy_engine(*this);
}

Result<VirtioDevice::NewQueue> VirtioDevice::create_host_queue(QueueRequest request) {
  request.type = vhsakmt::VHSAKMT_CCMD_QUEUE_CREATE;
  request.create_queue_args.NodeId = info_.node_id;
  const uint64_t doorbell_bytes =
      gfx_version_ > kLastWithSmallDoorbells ? kDoorbellBytes : kSmallDoorbellBytes;
  const std::lock_guard guard(doorbells_lock_);
  if (!doorbells_) request.doorbell_blob_id = driver_.next_blob_id();
  QueueAnswer answer{};
  TRY(channel().queue(request, answer));
  NewQueue queue;
  queue.resource = answer.vqueue_res;
  const auto& resource = queue.resource;
  // A host that could not finish says so with zeroes.
  if (resource.queue_handle == 0 || resource.host_doorbell_offset >= doorbell_bytes) return Errno{EIO};
  if (!doorbells_) {
    const auto map = [&]() -> Result<void> {
      VirtioFile::Blob blob = TRY(file().create_host_blob(request.doorbell_blob_id, doorbell_bytes, true));
      const uint64_t offset = TRY(file().mmap_offset(*blob.gem));
      doorbells_ = TRY(Mapping::map_file(doorbell_bytes, PROT_READ | PROT_WRITE, file().fd(), offset));
      doorbells_blob_ = std::move(blob.gem);
      return {};
    };
    if (const Result<void> mapped = map(); !mapped) {
      destroy_host_queue(channel(), resource.queue_handle, 0);
      return mapped.error();
    }
  }
  queue.doorbell = reinterpret_cast<volatile uint64_t*>(static_cast<std::byte*>(doorbells_.address()) +
                                                        resource.host_doorbell_offset);
  return queue;
}

}  // namespace hsa_rt::virtio
