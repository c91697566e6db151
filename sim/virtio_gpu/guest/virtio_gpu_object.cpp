#include "sim/virtio_gpu/guest/virtio_gpu_object.h"

#include <sys/mman.h>

#include <chrono>
#include <utility>

#include "sim/core/machine.h"
#include "sim/core/vma.h"
#include "sim/virtio_gpu/guest/memory_lock_account.h"

namespace understudy::virtio_gpu {
namespace {

// The real driver sleeps until the device has answered MAP_BLOB, however long; here a lost answer is given
// up.
constexpr std::chrono::seconds kMapAnswerPatience{5};

// The fake offsets of all objects together fit in 1 TiB (DRM_FILE_PAGE_OFFSET_SIZE).
constexpr std::uint64_t kOffsetSpaceBytes = std::uint64_t{0xfffff} * 256 * kGuestPageBytes;

// 0 when the rounded size does not fit in 64 bits, as PAGE_ALIGN gives.
constexpr std::uint64_t round_up_to_page(std::uint64_t bytes) {
  return (bytes + (kGuestPageBytes - 1)) & ~(kGuestPageBytes - 1);
}

Result<std::uint64_t> object_size(std::uint64_t requested_bytes) {
  const std::uint64_t size = round_up_to_page(requested_bytes);
  if (size == 0 || size > kOffsetSpaceBytes) return Errno(ENOSPC);
  return size;
}

std::vector<std::byte> entry_list(const Placement& placement) {
  std::vector<abi::virtio_gpu_mem_entry> entries;
  entries.reserve(placement.runs().size());
  for (const MemoryRun& run : placement.runs())
    entries.push_back({run.address, static_cast<std::uint32_t>(run.length_bytes), 0});
  const auto bytes = std::as_bytes(std::span(entries));
  return {bytes.begin(), bytes.end()};
}

ControlQueue::Entry create_blob_entry(const VirtioGpuObject& object, std::uint64_t wire_size_bytes,
                                      const Placement* placement) {
  const ObjectSpec& spec = object.spec();
  ResourceCreateBlob create;
  create.body.hdr.ctx_id = spec.context_id;
  create.body.resource_id = object.resource_id();
  create.body.blob_mem = spec.blob_mem;
  create.body.blob_flags = spec.blob_flags;
  create.body.blob_id = spec.blob_id;
  create.body.size = wire_size_bytes;
  ControlQueue::Entry entry;
  if (placement) {
    create.body.nr_entries = static_cast<std::uint32_t>(placement->runs().size());
    entry.data = entry_list(*placement);
  }
  entry.command = encode_command(create);
  return entry;
}

std::string size_text(std::uint64_t size_bytes) {
  return size_bytes >= (1 << 20) ? std::to_string(size_bytes >> 20) + " MiB"
                                 : std::to_string(size_bytes >> 10) + " KiB";
}

}  // namespace

VirtioGpuObject::VirtioGpuObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec,
                                 std::uint64_t size_bytes)
    : drm::GemObject(gpu, size_bytes),
      spec_(spec),
      resource_id_(gpu.next_resource_id()),
      entry_(gpu.machine().ledger().open(
          ObjectKind::kResource, call,
          "virtio-gpu resource " + std::to_string(resource_id_) + ", " + size_text(size_bytes))) {}

void VirtioGpuObject::unref_resource(std::shared_ptr<void> kept) {
  ResourceUnref unref;
  unref.body.resource_id = resource_id_;
  ControlQueue::Entry entry;
  entry.command = encode_command(unref);
  // The line in the ledger ends with the answer, too.
  entry.on_answer = [kept = std::move(kept),
                     line = std::make_shared<LedgerEntry>(std::move(entry_))](std::span<const std::byte>) {};
  gpu().control().queue(std::move(entry));
  gpu().control().notify();
}

// --- shmem ---

ShmemObject::ShmemObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec, BufferRef buffer,
                         std::shared_ptr<Placement> placement)
    : VirtioGpuObject(gpu, call, spec, buffer->size_bytes()),
      buffer_(std::move(buffer)),
      placement_(std::move(placement)) {}

ShmemObject::~ShmemObject() {
  unref_resource(placement_);
}

Result<ObjectRef> ShmemObject::create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec,
                                      const VirtioFenceRef& fence) {
  BufferRef buffer = Buffer::create("virtio-gpu", TRY(object_size(spec.size_bytes)));
  auto placement = std::make_shared<Placement>(
      TRY(gpu.memory().place(std::make_shared<BufferPages>(buffer), gpu.next_contiguity())));
  auto object = std::make_shared<ShmemObject>(gpu, call, spec, std::move(buffer), std::move(placement));
  object->create_resource(fence);
  return ObjectRef(std::move(object));
}

Result<ObjectRef> ShmemObject::import(VirtioGpuDevice& gpu, const Call* call, const DmaBufRef& dma_buf) {
  ObjectSpec spec;
  spec.size_bytes = dma_buf->size_bytes();
  spec.blob_mem = abi::VIRTIO_GPU_BLOB_MEM_GUEST;
  spec.blob_flags = abi::VIRTIO_GPU_BLOB_FLAG_USE_SHAREABLE;
  const BufferRef& buffer = dma_buf->buffer();
  auto placement = std::make_shared<Placement>(
      TRY(gpu.memory().place_pinned(std::make_shared<BufferPages>(buffer), gpu.next_contiguity())));
  auto object = std::make_shared<ShmemObject>(gpu, call, spec, buffer, std::move(placement));
  object->set_imported_from(dma_buf);
  object->create_resource(nullptr);
  return ObjectRef(std::move(object));
}

void ShmemObject::create_resource(const VirtioFenceRef& fence) {
  ControlQueue& control = gpu().control();
  if (spec().is_blob()) {
    control.queue(create_blob_entry(*this, size_bytes(), placement_.get()));
    return;
  }
  ControlQueue::Entry create;
  if (gpu().has_3d()) {
    ResourceCreate3d command;
    command.body = spec().texture;
    command.body.resource_id = resource_id();
    create.command = encode_command(command);
  } else {
    ResourceCreate2d command;
    command.body.resource_id = resource_id();
    command.body.format = spec().texture.format;
    command.body.width = spec().texture.width;
    command.body.height = spec().texture.height;
    create.command = encode_command(command);
  }
  create.fence = fence;
  create.objects.push_back(shared_from_this());
  control.queue(std::move(create));

  ResourceAttachBacking attach;
  attach.body.resource_id = resource_id();
  attach.body.nr_entries = static_cast<std::uint32_t>(placement_->runs().size());
  ControlQueue::Entry entry;
  entry.command = encode_command(attach);
  entry.data = entry_list(*placement_);
  control.queue(std::move(entry));
}

std::string ShmemObject::describe() const {
  return size_text(size_bytes()) + (spec().is_blob() ? " guest blob" : " guest memory") + ", resource " +
         std::to_string(resource_id());
}

Result<MmapTarget> ShmemObject::map(const MmapRequest& request) {
  if ((request.flags & MAP_PRIVATE) != 0) return Errno(EINVAL);
  return MmapTarget{TRY(buffer_->open_description(Hold::kMapLockByte, true)), 0};
}

// --- vram ---

VramObject::VramObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec)
    : VirtioGpuObject(gpu, call, spec, spec.size_bytes) {}

VramObject::~VramObject() {
  if (window_offset_) {
    ResourceUnmapBlob unmap;
    unmap.body.resource_id = resource_id();
    ControlQueue::Entry entry;
    entry.command = encode_command(unmap);
    gpu().control().queue(std::move(entry));
  }
  // The place in the window is free again when the device has answered.
  VirtioGpuDevice* device = window_offset_ ? &gpu() : nullptr;
  const std::uint64_t offset = window_offset_.value_or(0);
  unref_resource(std::shared_ptr<void>(nullptr, [device, offset](void*) {
    if (device) device->window().free(offset);
  }));
}

Result<ObjectRef> VramObject::create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec) {
  ObjectSpec rounded = spec;
  rounded.size_bytes = TRY(object_size(spec.size_bytes));
  auto object = std::make_shared<VramObject>(gpu, call, rounded);
  gpu.control().queue(create_blob_entry(*object, rounded.size_bytes, nullptr));
  const bool mappable = (spec.blob_flags & abi::VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE) != 0;
  if (mappable && !spec.defer_mapping) TRY(object->request_map());
  return ObjectRef(std::move(object));
}

Result<void> VramObject::request_map() {
  if (!gpu().has_host_visible()) return Errno(EINVAL);
  const std::uint64_t offset = TRY(gpu().window().allocate(size_bytes()));
  {
    const std::lock_guard lock(mutex_);
    window_offset_ = offset;
  }
  ResourceMapBlob command;
  command.body.resource_id = resource_id();
  command.body.offset = offset;
  ControlQueue::Entry entry;
  entry.command = encode_command(command);
  entry.response_bytes = sizeof(abi::virtio_gpu_resp_map_info);
  entry.objects.push_back(shared_from_this());
  entry.on_answer = [mapping = mapping_](std::span<const std::byte> response) {
    const std::lock_guard lock(mapping->mutex);
    mapping->state =
        std::holds_alternative<MapInfo>(decode_response(response)) ? MapState::kMapped : MapState::kFailed;
    mapping->changed.notify_all();
  };
  gpu().control().queue(std::move(entry));
  return {};
}

std::string VramObject::describe() const {
  return size_text(size_bytes()) + " host blob, resource " + std::to_string(resource_id());
}

Result<MmapTarget> VramObject::map(const MmapRequest& request) {
  if ((spec().blob_flags & abi::VIRTIO_GPU_BLOB_FLAG_USE_MAPPABLE) == 0) return Errno(EINVAL);
  bool requested = false;
  {
    const std::lock_guard lock(mutex_);
    requested = window_offset_.has_value();
  }
  if (!requested) {
    TRY(request_map());
    gpu().control().notify();
  }
  {
    std::unique_lock lock(mapping_->mutex);
    mapping_->changed.wait_for(lock, kMapAnswerPatience,
                               [&] { return mapping_->state != MapState::kInitializing; });
    if (mapping_->state != MapState::kMapped) return Errno(EINVAL);
  }
  if (request.length_bytes != size_bytes()) return Errno(EINVAL);
  const std::lock_guard lock(mutex_);
  return gpu().open_window(*window_offset_);
}

// --- userptr ---

UserptrObject::UserptrObject(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec, UserRange range,
                             std::uint64_t pinned_bytes, std::shared_ptr<Placement> placement)
    : VirtioGpuObject(gpu, call, spec, pinned_bytes),
      range_(std::move(range)),
      placement_(std::move(placement)),
      pin_(gpu.machine().ledger().open(
          ObjectKind::kUserptr, call,
          "pinned pages of resource " + std::to_string(resource_id()) + ", " + size_text(pinned_bytes))) {}

UserptrObject::~UserptrObject() {
  std::shared_ptr<Placement> kept = std::move(placement_);
  if (gpu().kernel().userptr == UserptrKind::kPinned) {
    // These versions let the pages go before they tell the host.
    kept.reset();
    pin_.close(nullptr);
    unref_resource(nullptr);
    return;
  }
  struct Pin {
    std::shared_ptr<Placement> placement;
    LedgerEntry line;
  };
  unref_resource(std::make_shared<Pin>(Pin{std::move(kept), std::move(pin_)}));
}

Result<ObjectRef> UserptrObject::create(VirtioGpuDevice& gpu, const Call* call, const ObjectSpec& spec,
                                        const UserRange& range) {
  constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 47;
  const bool accounted = gpu.kernel().userptr == UserptrKind::kAccounted;
  if (range.size_bytes == 0) return Errno(EINVAL);
  std::uint64_t end = 0;
  const bool wraps = __builtin_add_overflow(range.address, range.size_bytes, &end);
  if (accounted && (wraps || range.address % kGuestPageBytes != 0 || range.size_bytes % kGuestPageBytes != 0))
    return Errno(EINVAL);
  if (wraps || end > kUserSpaceEnd) return Errno(EFAULT);

  // Whole pages are pinned, whatever part of them was meant.
  const std::uint64_t first = range.address & ~(kGuestPageBytes - 1);
  const std::uint64_t pinned_bytes = round_up_to_page(end) - first;
  std::shared_ptr<void> charge;
  if (accounted) charge = TRY(charge_locked_memory(*range.client, pinned_bytes));
  TRY(check_user_range(*range.client, first, pinned_bytes, !range.read_only));

  auto pages =
      std::make_shared<UserPages>(range.client, first, pinned_bytes, range.read_only, std::move(charge));
  auto placement =
      std::make_shared<Placement>(TRY(gpu.memory().place_pinned(std::move(pages), gpu.next_contiguity())));
  const Placement& placed = *placement;
  auto object = std::make_shared<UserptrObject>(gpu, call, spec, range, pinned_bytes, std::move(placement));
  // The size goes out as the caller gave it; the entries cover at least that.
  gpu.control().queue(create_blob_entry(*object, range.size_bytes, &placed));
  return ObjectRef(std::move(object));
}

std::string UserptrObject::describe() const {
  return size_text(size_bytes()) + (range_.read_only ? " of read-only user memory" : " of user memory") +
         ", resource " + std::to_string(resource_id());
}

}  // namespace understudy::virtio_gpu
