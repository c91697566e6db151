// RocmObjects: what a context has on the host: memory, events, queues and their parts, known first by the
// blob id the guest chose and then by the resource it made of it.
//
// Owner: RocmContext. Units: bytes. Errors: none; look-ups return null. Thread-safety: the renderer's single
// caller. Mirrors: virglrenderer src/rocm: vhsakmt_object and the context's two tables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/core/fd.h"
#include "sim/virtio_gpu/device/renderer.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_events.h"
#include "sim/virtio_gpu/rocm/thunk/thunk_queues.h"

namespace understudy::virtio_gpu {

enum class RocmObjectType : std::uint8_t {
  kHostMemory = ccmd::VHSAKMT_OBJ_HOST_MEM,
  kUserptr = ccmd::VHSAKMT_OBJ_USERPTR,
  kEvent = ccmd::VHSAKMT_OBJ_EVENT,
  kQueue = ccmd::VHSAKMT_OBJ_QUEUE,
  kDoorbell = ccmd::VHSAKMT_OBJ_DOORBELL_PTR,
  kQueuePointers = ccmd::VHSAKMT_OBJ_DOORBELL_RW_PTR,
  kQueueMemory = ccmd::VHSAKMT_OBJ_QUEUE_MEM,
  kDmaBuf = ccmd::VHSAKMT_OBJ_DMA_BUF,
  kScratchMap = ccmd::VHSAKMT_OBJ_SCRATCH_MAP_MEM,
};

struct RocmObject {
  RocmObjectType type = RocmObjectType::kHostMemory;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t blob_id = 0;
  std::uint32_t resource_id = 0;
  hsa::HsaMemFlags flags{};
  // kDoorbell
  std::uint32_t node_id = 0;
  // kEvent, kQueue
  EventHandle event{};
  QueueHandle queue{};
  // kQueue: memory it runs on; kQueueMemory: the queue, while there is one
  std::vector<std::shared_ptr<RocmObject>> queue_memory;
  std::weak_ptr<RocmObject> used_by_queue;
  bool removed_by_guest = false;
  // kUserptr: pages, until they are in the view
  Backing backing;
  bool read_only = false;
  std::uint32_t registrations = 0;
  // EXPORT_DMABUF and AMDGPU_IMPORT
  UniqueFd dma_buf;
  std::uint64_t export_offset = 0;
  std::uint32_t imported_handle = 0;
};
using RocmObjectRef = std::shared_ptr<RocmObject>;

class RocmObjects {
 public:
  // A blob id can be used once until its resource has been made.
  bool blob_id_is_free(std::uint64_t blob_id) const { return blob_id != 0 && !by_blob_.contains(blob_id); }
  void add(std::uint64_t blob_id, RocmObjectRef object) {
    object->blob_id = blob_id;
    by_blob_[blob_id] = std::move(object);
  }
  // Takes the object out of the first table.
  RocmObjectRef take_blob(std::uint64_t blob_id) {
    const auto node = by_blob_.extract(blob_id);
    return node ? node.mapped() : nullptr;
  }
  bool has_resource(std::uint32_t resource_id) const { return by_resource_.contains(resource_id); }
  void add_resource(std::uint32_t resource_id, RocmObjectRef object) {
    object->resource_id = resource_id;
    by_resource_[resource_id] = std::move(object);
  }
  RocmObjectRef resource(std::uint32_t resource_id) const {
    const auto found = by_resource_.find(resource_id);
    return found == by_resource_.end() ? nullptr : found->second;
  }
  void remove_resource(std::uint32_t resource_id) { by_resource_.erase(resource_id); }

  // Empties both tables.
  std::vector<RocmObjectRef> take_all() {
    std::vector<RocmObjectRef> objects;
    for (auto& [id, object] : by_resource_) objects.push_back(std::move(object));
    for (auto& [id, object] : by_blob_) objects.push_back(std::move(object));
    by_resource_.clear();
    by_blob_.clear();
    return objects;
  }
  std::size_t size() const { return by_blob_.size() + by_resource_.size(); }

 private:
  std::map<std::uint64_t, RocmObjectRef> by_blob_;
  std::map<std::uint32_t, RocmObjectRef> by_resource_;
};

}  // namespace understudy::virtio_gpu
