#include "runtime/driver/xdna/xdna_device.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/driver/host/host_driver.h"
#include "runtime/driver/ioctl.h"
#include "runtime/driver/xdna/xdna_context.h"
#include "runtime/driver/xdna/xdna_driver.h"
#include "uapi/amdxdna.h"

namespace hsa_rt::xdna {
namespace {

constexpr uint64_t kHeapChunkBytes = uint64_t{64} << 20;
constexpr uint64_t kUnmappedAddress = uapi::amdxdna::AMDXDNA_INVALID_ADDR;

// What the public record says of each generation.
struct Generation {
  uint32_t pci_device;
  const char* name;
  uint32_t unusable_columns;  // the first column of the first generation has no way to memory
  uint64_t heap_max_bytes;
};
constexpr Generation kGenerations[] = {
    {0x1502, "aie2", 1, kHeapChunkBytes},
    {0x17f0, "aie2p", 0, 8 * kHeapChunkBytes},
};

template <class T>
Result<T> get_info(int fd, uint32_t parameter) {
  T value{};
  uapi::amdxdna::amdxdna_drm_get_info args{};
  args.param = parameter;
  args.buffer_size = sizeof(value);
  args.buffer = reinterpret_cast<uint64_t>(&value);
  TRY(driver_ioctl<uapi::amdxdna::GetInfo>(fd, args));
  return value;
}

std::string read_attribute(int minor, const char* name) {
  std::ifstream file("/sys/class/accel/accel" + std::to_string(minor) + "/device/" + name);
  std::string text;
  std::getline(file, text);
  return text;
}

uint32_t read_hex_attribute(int minor, const char* name) {
  return static_cast<uint32_t>(std::strtoul(read_attribute(minor, name).c_str(), nullptr, 16));
}

std::vector<PoolInfo> npu_pools(uint64_t heap_max_bytes) {
  const uint64_t system_bytes =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  PoolInfo shared;
  shared.placement = Placement::kDevice;
  shared.size_bytes = system_bytes;
  shared.coarse_grained = true;
  PoolInfo kernarg = shared;
  kernarg.kernarg = true;
  PoolInfo heap = shared;
  heap.placement = Placement::kDeviceHeap;
  heap.size_bytes = heap_max_bytes;
  return {kernarg, heap, shared};
}

}  // namespace

Result<std::unique_ptr<XdnaDevice>> XdnaDevice::create(XdnaDriver& driver, std::unique_ptr<drm::DrmFile> file,
                                                       int minor, uint32_t node_id) {
  const auto metadata = TRY(get_info<uapi::amdxdna::amdxdna_drm_query_aie_metadata>(
      file->fd(), uapi::amdxdna::DRM_AMDXDNA_QUERY_AIE_METADATA));
  Generation generation = kGenerations[0];
  const uint32_t pci_device = read_hex_attribute(minor, "device");
  for (const Generation& known : kGenerations) {
    if (known.pci_device == pci_device) generation = known;
  }
  DeviceInfo info;
  info.kind = DeviceKind::kNpu;
  info.node_id = node_id;
  info.name = generation.name;
  info.product_name = read_attribute(minor, "vbnv");
  if (info.product_name.empty()) info.product_name = "AIE-ML";
  info.vendor_name = "AMD";
  info.uuid = "AIE-XX";
  info.vendor_id = read_hex_attribute(minor, "vendor");
  info.chip_id = pci_device;
  info.compute_units = (metadata.cols - generation.unusable_columns) * metadata.core.row_count;
  info.max_queues = 6;
  info.queue_min_packets = 64;
  info.queue_max_packets = 4096;
  info.integrated = true;
  info.pools = npu_pools(generation.heap_max_bytes);
  if (const auto resources = get_info<uapi::amdxdna::amdxdna_drm_get_resource_info>(
          file->fd(), uapi::amdxdna::DRM_AMDXDNA_QUERY_RESOURCE_INFO)) {
    info.max_clock_mhz = static_cast<uint32_t>(resources.value().npu_clk_max);
    info.max_queues = static_cast<uint32_t>(resources.value().npu_task_max);
  }
  return std::make_unique<XdnaDevice>(driver, std::move(file), std::move(info), generation.heap_max_bytes);
}

XdnaDevice::XdnaDevice(XdnaDriver& driver, std::unique_ptr<drm::DrmFile> file, DeviceInfo info,
                       uint64_t heap_max_bytes)
    : driver_(driver), file_(std::move(file)), info_(std::move(info)), heap_max_bytes_(heap_max_bytes) {}

Driver& XdnaDevice::driver() const {
  return driver_;
}

Result<std::shared_ptr<drm::GemRef>> XdnaDevice::create_buffer(uint32_t type, uint64_t size_bytes) {
  uapi::amdxdna::amdxdna_drm_create_bo args{};
  args.type = type;
  args.size = size_bytes;
  TRY(driver_ioctl<uapi::amdxdna::CreateBo>(file_->fd(), args));
  return file_->adopt(args.handle);
}

Result<BufferInfo> XdnaDevice::buffer_info(const drm::GemRef& gem) const {
  uapi::amdxdna::amdxdna_drm_get_bo_info args{};
  args.handle = gem.handle();
  TRY(driver_ioctl<uapi::amdxdna::GetBoInfo>(file_->fd(), args));
  const uint64_t map_offset = args.map_offset == kUnmappedAddress ? 0 : args.map_offset;
  return BufferInfo{map_offset, args.vaddr, args.xdna_addr};
}

Result<std::shared_ptr<Memory>> XdnaDevice::allocate(const AllocationRequest& request) {
  if (request.placement == Placement::kDeviceHeap) return allocate_from_heap(request.size_bytes);
  XdnaMemory::Native native;
  native.gem = TRY(create_buffer(uapi::amdxdna::AMDXDNA_BO_SHARE, request.size_bytes));
  native.map_offset = TRY(buffer_info(*native.gem)).map_offset;
  return std::shared_ptr<Memory>(
      std::make_shared<XdnaMemory>(*this, request.size_bytes, request.placement, std::move(native)));
}

Result<std::shared_ptr<Memory>> XdnaDevice::allocate_from_heap(uint64_t size_bytes) {
  const std::lock_guard guard(heap_lock_);
  Result<std::shared_ptr<drm::GemRef>> gem = Errno{EAGAIN};
  if (heap_mapped_ == 0) TRY(grow_heap());
  for (;;) {
    // The kernel says EAGAIN when the next free place lies beyond the chunks there are, so this ioctl is not
    // one to repeat blindly.
    uapi::amdxdna::amdxdna_drm_create_bo args{};
    args.type = uapi::amdxdna::AMDXDNA_BO_DEV;
    args.size = size_bytes;
    const Result<void> created = driver_ioctl_once<uapi::amdxdna::CreateBo>(file_->fd(), args);
    if (created) {
      gem = file_->adopt(args.handle);
      break;
    }
    if (created.error().value == EINTR) continue;
    if (created.error().value != EAGAIN) return created.error();
    TRY(grow_heap());
  }
  XdnaMemory::Native native;
  native.gem = std::move(gem).value();
  const BufferInfo info = TRY(buffer_info(*native.gem));
  native.fixed_span = {info.address, size_bytes};
  native.device_address = info.device_address;
  return std::shared_ptr<Memory>(
      std::make_shared<XdnaMemory>(*this, size_bytes, Placement::kDeviceHeap, std::move(native)));
}

Result<void> XdnaDevice::ensure_heap() {
  const std::lock_guard guard(heap_lock_);
  if (heap_mapped_ == 0) TRY(grow_heap());
  return {};
}

Result<void> XdnaDevice::grow_heap() {
  // The firmware wants the heap aligned to its chunks.
  if (heap_range_.span().size == 0)
    heap_range_ = TRY(ReservedRange::reserve(heap_max_bytes_, kHeapChunkBytes));
  if (heap_chunks_.size() == heap_mapped_) {
    if (heap_chunks_.size() * kHeapChunkBytes == heap_max_bytes_) return Errno{ENOSPC};
    // The kernel counts a chunk from here on, whatever happens to its handle: one that could not be mapped is
    // the next.
    heap_chunks_.push_back(TRY(create_buffer(uapi::amdxdna::AMDXDNA_BO_DEV_HEAP, kHeapChunkBytes)));
  }
  const BufferInfo info = TRY(buffer_info(*heap_chunks_.back()));
  const AddressSpan place{heap_range_.span().base + heap_mapped_ * kHeapChunkBytes, kHeapChunkBytes};
  TRY(place_file(place, PROT_READ | PROT_WRITE, file_->fd(), info.map_offset));
  ++heap_mapped_;
  return {};
}

Result<std::unique_ptr<Share>> XdnaDevice::attach(std::shared_ptr<Memory> memory) {
  if (&memory->device() == this) {
    std::shared_ptr<drm::GemRef> own = static_cast<XdnaMemory&>(*memory).gem();
    return share_with_npu(*this, std::move(memory), std::move(own), true);
  }
  std::shared_ptr<drm::GemRef> imported = TRY(file_->import_memory(*memory));
  return share_with_npu(*this, std::move(memory), std::move(imported), false);
}

Result<std::shared_ptr<Memory>> XdnaDevice::register_user_memory(const AddressSpan& host, uint64_t) {
  using Table = uapi::amdxdna::amdxdna_drm_va_tbl;
  using Entry = uapi::amdxdna::amdxdna_drm_va_entry;
  alignas(Entry) std::byte user[sizeof(Table) + sizeof(Entry)] = {};
  const Table table{.dmabuf_fd = -1, .num_entries = 1};
  const Entry entry{.vaddr = host.base, .len = host.size};
  std::memcpy(user, &table, sizeof(table));
  std::memcpy(user + sizeof(table), &entry, sizeof(entry));
  uapi::amdxdna::amdxdna_drm_create_bo args{};
  args.type = uapi::amdxdna::AMDXDNA_BO_SHARE;
  args.vaddr = reinterpret_cast<uint64_t>(user);
  const Result<void> created = driver_ioctl<uapi::amdxdna::CreateBo>(file_->fd(), args);
  // The first kernels with this driver know no user memory; nothing else is wrong with these arguments.
  if (!created) return created.error().value == EINVAL ? Errno{EOPNOTSUPP} : created.error();
  XdnaMemory::Native native;
  native.gem = file_->adopt(args.handle);
  native.fixed_span = host;
  return std::shared_ptr<Memory>(
      std::make_shared<XdnaMemory>(*this, host.size, Placement::kHost, std::move(native)));
}

Result<std::shared_ptr<Memory>> XdnaDevice::adopt(int dmabuf_fd) {
  const off_t size = ::lseek(dmabuf_fd, 0, SEEK_END);
  XdnaMemory::Native native;
  native.gem = TRY(file_->import_dmabuf(dmabuf_fd));
  if (size <= 0) return Errno{EINVAL};
  native.map_offset = TRY(buffer_info(*native.gem)).map_offset;
  return std::shared_ptr<Memory>(std::make_shared<XdnaMemory>(*this, static_cast<uint64_t>(size),
                                                              Placement::kDevice, std::move(native)));
}

Result<std::unique_ptr<CommandContext>> XdnaDevice::create_command_context() {
  TRY(ensure_heap());
  return make_xdna_context(*this);
}

}  // namespace hsa_rt::xdna
