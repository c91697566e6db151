#include "runtime/driver/virtio/virtio_driver.h"

#include <cerrno>

#include "runtime/driver/virtio/host_topology.h"
#include "runtime/driver/virtio/virtio_device.h"

namespace hsa_rt::virtio {
namespace {

constexpr uint32_t kKfdMajorVersion = 1;

Result<void> ask(HostChannel& channel, uint32_t type, QueryAnswer& answer) {
  QueryRequest request{};
  request.type = type;
  return channel.query(request, answer);
}

// The addresses that the host hands out must be free here, too.
Result<ReservedRange> reserve_arena(HostChannel& channel) {
  QueryAnswer answer{};
  TRY(ask(channel, vhsakmt::VHSAKMT_CCMD_QUERY_OPEN_KFD, answer));
  const auto& offered = answer.open_kfd_rsp;
  AddressSpan wanted;
  if (offered.vm_start == 0 || !AddressSpan::make(offered.vm_start, offered.vm_size, wanted)) {
    return Errno{EPROTO};
  }
  ReservedRange arena = TRY(ReservedRange::reserve(wanted.size, kPageBytes, wanted.base));
  if (arena.span() != wanted) return Errno{EEXIST};
  return arena;
}

}  // namespace

Result<std::shared_ptr<Driver>> VirtioDriver::open() {
  std::unique_ptr<VirtioFile> file = TRY(VirtioFile::open());
  std::unique_ptr<HostChannel> channel = TRY(HostChannel::open(*file));
  QueryAnswer answer{};
  TRY(ask(*channel, vhsakmt::VHSAKMT_CCMD_QUERY_GET_VER, answer));
  if (answer.kfd_version.KernelInterfaceMajorVersion != kKfdMajorVersion) return Errno{EPROTO};
  ReservedRange arena = TRY(reserve_arena(*channel));
  auto driver = std::make_shared<VirtioDriver>(std::move(file), std::move(channel), std::move(arena));
  TRY(driver->discover());
  return std::shared_ptr<Driver>(driver);
}

VirtioDriver::VirtioDriver(std::unique_ptr<VirtioFile> file, std::unique_ptr<HostChannel> channel,
                           ReservedRange arena)
    : file_(std::move(file)), channel_(std::move(channel)), arena_(std::move(arena)) {}

Result<void> VirtioDriver::discover() {
  // The host speaks for its first GPU here.
  QueryAnswer answer{};
  TRY(ask(*channel_, vhsakmt::VHSAKMT_CCMD_QUERY_GPU_INFO, answer));
  const std::vector<amdgpu::TopologyNode> nodes = TRY(read_host_topology(*channel_));
  for (const amdgpu::TopologyNode& node : nodes) {
    if (node.gpu_id == 0) {
      host_nodes_.push_back(describe_cpu(node));
      continue;
    }
    DeviceInfo info = describe_gpu(node, nodes);
    info.asic_family = answer.gpu_info.family_id;
    info.timestamp_frequency_hz = uint64_t{answer.gpu_info.gpu_counter_freq} * 1000;
    devices_.push_back(
        std::make_unique<VirtioDevice>(*this, node.properties.get32("gfx_target_version"), std::move(info)));
  }
  return {};
}

void VirtioDriver::remember(const std::shared_ptr<HostObject>& object) {
  const std::lock_guard guard(objects_lock_);
  std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
  objects_[object->span().base] = object;
}

std::shared_ptr<HostObject> VirtioDriver::object_at(uint64_t address) const {
  const std::lock_guard guard(objects_lock_);
  auto after = objects_.upper_bound(address);
  if (after == objects_.begin()) return nullptr;
  std::shared_ptr<HostObject> object = std::prev(after)->second.lock();
  return object != nullptr && object->span().contains(address) ? object : nullptr;
}

std::shared_ptr<HostObject> VirtioDriver::object_of(uint32_t resource_id) const {
  const std::lock_guard guard(objects_lock_);
  for (const auto& [address, known] : objects_) {
    std::shared_ptr<HostObject> object = known.lock();
    if (object != nullptr && object->resource_id() == resource_id) return object;
  }
  return nullptr;
}

}  // namespace hsa_rt::virtio
