#include "sim/virtio_gpu/rocm/rocm_context.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {
namespace {

namespace abi = uapi::virtio_gpu_wire;
using ShmemHeader = ccmd::vhsakmt_shmem;

// A shared page is for answers; nobody needs more of it.
constexpr std::uint64_t kLargestShmemBytes = std::uint64_t{1} << 30;

constexpr std::uint64_t round_up_to_page(std::uint64_t bytes) {
  return (bytes + kGuestPageBytes - 1) & ~(kGuestPageBytes - 1);
}

}  // namespace

Result<std::unique_ptr<RocmContext>> RocmContext::create(RocmBackend& backend, std::uint32_t) {
  std::shared_ptr<VaArena> arena = backend.take_arena();
  if (!arena) return Errno(ENOMEM);
  return std::unique_ptr<RocmContext>(new RocmContext(backend, std::move(arena)));
}

RocmContext::~RocmContext() {
  for (const RocmObjectRef& object : objects_.take_all()) free_object(object);
  // The published host gives back the start of every node's scratch, whoever has it.
  if (backend_.strict()) return;
  for (auto& [node_id, scratch] : backend_.all_scratch()) scratch.arena.free(scratch.arena.base());
}

Result<void> RocmContext::submit(std::span<const std::byte> commands) {
  while (commands.size() >= sizeof(VhsakmtHeader)) {
    const VhsakmtCommand command = TRY(decode_vhsakmt(commands, layout()));
    const VhsakmtHeader& header = header_of(command);
    if (lost_ && backend_.strict()) return Errno(EIO);
    const Answer answer = lost_ ? refuse_lost(command)
                                : std::visit([this](const auto& frame) { return handle(frame); }, command);
    // What ends the stream ends it before the sequence number moves; a guest that waits for it waits for
    // ever.
    if (!answer) return answer.error();
    if (answer.value()) write_answer(header, *answer.value());
    write_seqno(header.seqno);
    commands = commands.subspan(header.len);
  }
  if (!commands.empty()) return Errno(EINVAL);
  return {};
}

// --- the shared page ---

Result<Blob> RocmContext::create_shmem(const BlobRequest& request) {
  if (request.blob_flags != abi::VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE) return Errno(EINVAL);
  if (shmem_ || request.size_bytes < sizeof(ShmemHeader)) return Errno(EINVAL);
  if (request.size_bytes > kLargestShmemBytes) return Errno(ENOMEM);
  BufferRef shmem = Buffer::create("vhsakmt-shmem", round_up_to_page(request.size_bytes));
  const std::span<std::byte> bytes = TRY(shmem->bytes());
  const std::uint32_t response_offset = sizeof(ShmemHeader);
  std::memcpy(bytes.data() + offsetof(ShmemHeader, base.rsp_mem_offset), &response_offset,
              sizeof response_offset);
  shmem_ = std::move(shmem);
  shmem_resource_id_ = request.resource_id;
  Blob blob;
  blob.map_info = abi::VIRTIO_GPU_MAP_CACHE_CACHED;
  blob.opener = [shmem = shmem_]() -> Result<MmapTarget> {
    return MmapTarget{TRY(shmem->open_description(Hold::kMapLockByte, true)), 0};
  };
  return blob;
}

std::span<std::byte> RocmContext::response_area() {
  if (!shmem_) return {};
  const Result<std::span<std::byte>> bytes = shmem_->bytes();
  return bytes ? bytes.value().subspan(sizeof(ShmemHeader)) : std::span<std::byte>{};
}

void RocmContext::write_seqno(std::uint32_t seqno) {
  if (!shmem_) return;
  const Result<std::span<std::byte>> bytes = shmem_->bytes();
  if (!bytes) return;
  auto* const at = reinterpret_cast<std::uint32_t*>(bytes.value().data() + offsetof(ShmemHeader, base.seqno));
  std::atomic_ref(*at).store(seqno, std::memory_order_release);
}

void RocmContext::write_answer(const VhsakmtHeader& header, const VhsakmtReply& reply) {
  const std::span<std::byte> room = response_area().subspan(header.rsp_off);
  std::uint32_t guest_bytes = 0;
  std::memcpy(&guest_bytes, room.data(), sizeof guest_bytes);
  const std::uint32_t length =
      static_cast<std::uint32_t>(std::min<std::size_t>(guest_bytes, reply.bytes().size()));
  std::memcpy(room.data(), reply.bytes().data(), length);
  std::memcpy(room.data(), &length, sizeof length);
}

Result<VhsakmtReply> RocmContext::make_reply(const VhsakmtHeader& header, std::size_t size_bytes) {
  const std::size_t area = response_area().size();
  if (header.rsp_off > area || size_bytes > area - header.rsp_off) return Errno(ENOMEM);
  return VhsakmtReply(size_bytes);
}

RocmContext::Answer RocmContext::answer_with(const VhsakmtHeader& header, std::size_t size_bytes,
                                             std::int32_t ret) {
  VhsakmtReply reply = TRY(make_reply(header, size_bytes));
  reply.set_ret(ret);
  return std::optional(std::move(reply));
}

RocmContext::Answer RocmContext::handle(const NopCommand&) {
  return std::optional<VhsakmtReply>();
}

// The published host has no word for this; a guest that looks finds the page's error field set.
RocmContext::Answer RocmContext::refuse_lost(const VhsakmtCommand& command) {
  if (const Result<std::span<std::byte>> bytes = shmem_ ? shmem_->bytes() : Errno(ENODEV)) {
    const std::uint32_t error = 1;
    std::memcpy(bytes.value().data() + offsetof(ShmemHeader, async_error), &error, sizeof error);
  }
  if (std::holds_alternative<NopCommand>(command)) return std::optional<VhsakmtReply>();
  return answer_with(header_of(command), 2 * sizeof(std::uint32_t), -EIO);
}

// --- blobs ---

Result<Blob> RocmContext::create_blob(const BlobRequest& request) {
  if (request.blob_id >> 32 != 0) return Errno(EINVAL);
  if (request.blob_id == 0) return create_shmem(request);
  if (objects_.has_resource(request.resource_id)) return Errno(EINVAL);
  const bool userptr = (request.blob_flags & abi::VIRTIO_GPU_BLOB_FLAG_USE_USERPTR) != 0;

  RocmObjectRef object = objects_.take_blob(request.blob_id);
  if (!object) {
    if (!userptr) return Errno(ENOENT);
    object = TRY(make_userptr(request));
  }
  objects_.add_resource(request.resource_id, object);
  if ((request.blob_flags & abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE) != 0) return Errno(EINVAL);
  // Pages of the object, whatever the size of the blob says.
  Blob blob;
  blob.opener = opener_of(*object);
  return blob;
}

Result<RocmObjectRef> RocmContext::make_userptr(const BlobRequest& request) {
  if (request.backing.empty()) return layout().registers_by_resource ? Errno(EINVAL) : Errno(ENOENT);
  auto object = std::make_shared<RocmObject>();
  object->type = RocmObjectType::kUserptr;
  object->size_bytes = round_up_to_page(total_bytes(request.backing));
  object->backing = request.backing;
  object->read_only = (request.blob_flags & abi::VIRTIO_GPU_BLOB_FLAG_USERPTR_RDONLY) != 0;
  const auto address = backend_.views().allocate(object->size_bytes, kGuestPageBytes);
  if (!address) return Errno(ENOMEM);
  object->address = *address;
  // The newer host moves the pages into the view when they are registered, the older has them there at once.
  if (!layout().registers_by_resource) {
    const Result<void> filled = fill_view(*object);
    if (!filled) {
      backend_.views().free(*address);
      return filled.error();
    }
  }
  return object;
}

Result<void> RocmContext::fill_view(RocmObject& object) {
  return thunk().process().memory().map_view(object.address, object.size_bytes, object.backing,
                                             object.read_only);
}

BlobOpener RocmContext::opener_of(const RocmObject& object) {
  switch (object.type) {
    case RocmObjectType::kHostMemory:
    case RocmObjectType::kQueueMemory:
      return object.flags.ui32.Scratch ? BlobOpener{} : thunk().memory().opener(object.address);
    case RocmObjectType::kDoorbell:
      return thunk().queues().doorbell_opener(object.node_id);
    case RocmObjectType::kQueuePointers:
      return thunk().queues().pointer_page_opener(object.queue);
    case RocmObjectType::kUserptr:
    case RocmObjectType::kEvent:
    case RocmObjectType::kQueue:
    case RocmObjectType::kDmaBuf:
    case RocmObjectType::kScratchMap:
      break;
  }
  return {};
}

// --- the end of objects ---

void RocmContext::detach_resource(std::uint32_t resource_id) {
  if (shmem_ && resource_id == shmem_resource_id_) {
    shmem_.reset();
    shmem_resource_id_ = 0;
    return;
  }
  const RocmObjectRef object = objects_.resource(resource_id);
  if (!object) return;
  objects_.remove_resource(resource_id);
  free_object(object);
}

void RocmContext::free_object(const RocmObjectRef& object) {
  switch (object->type) {
    case RocmObjectType::kQueueMemory:
      object->removed_by_guest = true;
      // Memory of a live queue stays until the queue goes; nobody is told.
      if (object->used_by_queue.expired()) free_memory(*object);
      return;
    case RocmObjectType::kHostMemory:
      free_memory(*object);
      return;
    case RocmObjectType::kUserptr:
      for (; object->registrations > 0; --object->registrations)
        (void)thunk().memory().deregister(object->address);
      thunk().process().memory().unmap_view(object->address);
      backend_.views().free(object->address);
      return;
    case RocmObjectType::kEvent:
      (void)thunk().events().set(object->event);
      (void)thunk().events().destroy(object->event);
      return;
    case RocmObjectType::kQueue: {
      (void)thunk().queues().destroy(object->queue);
      const std::vector<RocmObjectRef> memories = std::move(object->queue_memory);
      for (const RocmObjectRef& memory : memories) {
        memory->used_by_queue.reset();
        if (memory->removed_by_guest) free_memory(*memory);
      }
      return;
    }
    case RocmObjectType::kScratchMap:
      (void)thunk().memory().unmap(object->address);
      return;
    case RocmObjectType::kDmaBuf:
      object->dma_buf.reset();
      return;
    case RocmObjectType::kDoorbell:
    case RocmObjectType::kQueuePointers:
      return;  // parts of the process and of the queue
  }
}

void RocmContext::free_memory(const RocmObject& object) {
  if (object.flags.ui32.Scratch) {
    for (auto& [node_id, scratch] : backend_.all_scratch()) {
      if (scratch.arena.contains(object.address)) scratch.arena.free(object.address);
    }
    return;
  }
  (void)thunk().memory().unmap(object.address);
  (void)thunk().memory().free(object.address);
  if (!object.flags.ui32.NoAddress) arena_->free(object.address);
}

}  // namespace understudy::virtio_gpu
