#include "runtime/driver/virtio/host_object.h"

#include <cerrno>
#include <vector>

#include "runtime/base/persist.h"
#include "runtime/driver/virtio/host_channel.h"

namespace hsa_rt::virtio {

HostObject::HostObject(HostChannel& channel, VirtioFile::Blob blob, const AddressSpan& span)
    : channel_(channel), blob_(std::move(blob)), span_(span), device_address_(span.base) {}

Result<std::shared_ptr<HostObject>> HostObject::register_user_pages(HostChannel& channel,
                                                                    VirtioFile::Blob blob,
                                                                    uint64_t size_bytes, uint32_t node) {
  MemoryRequest request{};
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_MAP_USERPTR;
  request.res_id = blob.resource_id;
  MemoryAnswer answer{};
  TRY(channel.memory(request, answer));
  const uint64_t address = answer.map_userptr_rsp.userptr_handle;
  AddressSpan span;
  if (address == 0 || !AddressSpan::make(address, size_bytes, span)) return Errno{EPROTO};

  request = {};
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_REG_MEM_WITH_FLAG;
  request.res_id = blob.resource_id;
  request.reg_mem_with_flag.MemoryAddress = span.base;
  request.reg_mem_with_flag.MemorySizeInBytes = span.size;
  request.reg_mem_with_flag.MemFlags.ui32.HostAccess = 1;
  TRY(channel.memory(request, answer));
  auto pages = std::make_shared<HostObject>(channel, std::move(blob), span);
  pages->registered_ = true;
  TRY(pages->map(node));
  pages->home_node_ = node;
  return pages;
}

HostObject::~HostObject() {
  persist([this] { return close(); });
}

Result<void> HostObject::map(uint32_t node) {
  const std::lock_guard guard(lock_);
  std::map<uint32_t, uint64_t> nodes = uses_by_node_;
  if (++nodes[node] == 1) TRY(map_exactly(nodes));
  uses_by_node_ = std::move(nodes);
  return {};
}

Result<void> HostObject::unmap(uint32_t node) {
  const std::lock_guard guard(lock_);
  std::map<uint32_t, uint64_t> nodes = uses_by_node_;
  if (--nodes[node] == 0) {
    nodes.erase(node);
    TRY(map_exactly(nodes));
  }
  uses_by_node_ = std::move(nodes);
  return {};
}

Result<void> HostObject::map_exactly(const std::map<uint32_t, uint64_t>& nodes) {
  MemoryRequest request{};
  std::vector<uint32_t> node_ids;
  for (const auto& [node, uses] : nodes) node_ids.push_back(node);
  if (node_ids.empty()) {
    request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_UNMAP_TO_GPU;
    request.MemoryAddress = span_.base;
  } else {
    request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_MAP_TO_GPU_NODES;
    request.map_to_GPU_nodes_args.MemoryAddress = span_.base;
    request.map_to_GPU_nodes_args.MemorySizeInBytes = span_.size;
    request.map_to_GPU_nodes_args.NumberOfNodes = node_ids.size();
  }
  MemoryAnswer answer{};
  TRY(channel_.memory(request, answer, node_ids));
  if (registered_ && !home_node_ && answer.alternate_vagpu != 0) device_address_ = answer.alternate_vagpu;
  return {};
}

Result<void> HostObject::close() {
  if (home_node_) {
    TRY(unmap(*home_node_));
    home_node_.reset();
  }
  if (registered_) {
    MemoryRequest request{};
    request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_DEREG_MEM;
    request.MemoryAddress = span_.base;
    request.res_id = blob_.resource_id;
    MemoryAnswer answer{};
    TRY(channel_.memory(request, answer));
    registered_ = false;
  }
  return GemRef::release(blob_.gem);
}

}  // namespace hsa_rt::virtio
