#include "sim/virtio_gpu/rocm/thunk/thunk_queues.h"

#include <algorithm>
#include <array>
#include <vector>

namespace understudy::virtio_gpu {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kEndOfPipeBytes = 4096;
// In the queue's page, as the library's struct queue has them.
constexpr std::uint64_t kWritePointerOffset = 8;
constexpr std::uint64_t kReadPointerOffset = 16;

// priority_map, for -3 to 3.
constexpr std::array<std::uint32_t, 7> kKfdPriorities = {0, 3, 5, 7, 9, 11, 15};
constexpr std::int64_t kLowestPriority = -3;
constexpr std::int64_t kHighestPriority = 3;

std::optional<std::uint32_t> kfd_priority(std::int64_t priority) {
  if (priority < kLowestPriority || priority > kHighestPriority) return std::nullopt;
  return kKfdPriorities[static_cast<std::size_t>(priority - kLowestPriority)];
}

std::optional<std::uint32_t> kfd_type(std::uint32_t type) {
  switch (type) {
    case hsa::HSA_QUEUE_COMPUTE:
      return KFD_IOC_QUEUE_TYPE_COMPUTE;
    case hsa::HSA_QUEUE_SDMA:
      return KFD_IOC_QUEUE_TYPE_SDMA;
    case hsa::HSA_QUEUE_SDMA_XGMI:
      return KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
    case hsa::HSA_QUEUE_SDMA_BY_ENG_ID:
      return KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
    case hsa::HSA_QUEUE_COMPUTE_AQL:
      return KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    default:
      return std::nullopt;
  }
}

// queues.c: update_ctx_save_restore_size, with the sizes the kernel gives since 6.12.
struct SaveAreaSizes {
  std::uint32_t context_bytes = 0;
  std::uint32_t control_stack_bytes = 0;
  std::uint64_t total_bytes = 0;
};

SaveAreaSizes save_area_sizes(const TopologyNode& node) {
  constexpr std::uint32_t kDebuggerBytesPerWave = 32;
  constexpr std::uint32_t kDebuggerAlignment = 64;
  constexpr std::uint32_t kNavi10 = 0x0a'0100;
  const hsa::HsaNodeProperties& properties = node.properties;
  const std::uint32_t compute_units =
      properties.NumFComputeCores / std::max(1u, properties.NumSIMDPerCU) / properties.NumXcc;
  const std::uint32_t waves = node.gfx_version() < kNavi10
                                  ? std::min(compute_units * 40, properties.NumShaderBanks * 512)
                                  : compute_units * 32;
  const std::uint32_t debug_bytes =
      (waves * kDebuggerBytesPerWave + kDebuggerAlignment - 1) / kDebuggerAlignment * kDebuggerAlignment;
  SaveAreaSizes sizes;
  sizes.context_bytes = static_cast<std::uint32_t>(node.raw_value("cwsr_size"));
  sizes.control_stack_bytes = static_cast<std::uint32_t>(node.raw_value("ctl_stack_size"));
  sizes.total_bytes = (std::uint64_t{sizes.context_bytes} + debug_bytes) * properties.NumXcc;
  return sizes;
}

bool is_sdma(std::uint32_t kfd_queue_type) {
  return kfd_queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE && kfd_queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
}

}  // namespace

HsaStatus ThunkQueues::create(const QueueRequest& request, hsa::HsaQueueResource& resource) {
  const auto priority = kfd_priority(request.priority);
  if (!priority) return HsaStatus::kInvalidParameter;
  if (!topology_.node(request.node_id)) return HsaStatus::kInvalidNode;
  const HostGpu* const gpu = gpus_.by_node(request.node_id);
  if (!gpu) return HsaStatus::kNoMemory;
  const auto type = kfd_type(request.type);

  HsaResult<std::uint64_t> page = memory_.allocate_internal(*gpu, kPageBytes, false);
  if (!page) return HsaStatus::kNoMemory;
  const std::uint64_t page_address = page.value();
  Queue queue;
  const auto fail = [&](HsaStatus status) {
    free_buffers(page_address, queue);
    return status;
  };
  if (!type) return fail(HsaStatus::kInvalidParameter);

  kfd_ioctl_create_queue_args args{};
  args.gpu_id = gpu->node->gpu_id();
  args.queue_type = *type;
  args.queue_percentage = request.percentage;
  args.queue_priority = *priority;
  args.ring_base_address = request.ring_address;
  args.ring_size = static_cast<std::uint32_t>(request.ring_bytes);
  args.sdma_engine_id = request.sdma_engine;
  if (request.type != hsa::HSA_QUEUE_COMPUTE_AQL) {
    resource.QueueWptrValue = page_address + kWritePointerOffset;
    resource.QueueRptrValue = page_address + kReadPointerOffset;
  }
  args.write_pointer_address = resource.QueueWptrValue;
  args.read_pointer_address = resource.QueueRptrValue;
  if (const HsaStatus status = allocate_buffers(*gpu, request, queue, args); status != HsaStatus::kSuccess)
    return fail(status);
  if (!gpus_.ioctl<CreateQueue>(args)) return fail(HsaStatus::kError);

  queue.kfd_id = args.queue_id;
  doorbell_offsets_[request.node_id] = args.doorbell_offset & ~(kDoorbellPageBytes - 1);
  resource.QueueId = page_address;
  resource.QueueDoorBell =
      doorbell_address(request.node_id) + (args.doorbell_offset & (kDoorbellPageBytes - 1));
  queues_[QueueHandle{page_address}] = queue;
  return HsaStatus::kSuccess;
}

HsaStatus ThunkQueues::allocate_buffers(const HostGpu& gpu, const QueueRequest& request, Queue& queue,
                                        kfd_ioctl_create_queue_args& args) {
  if (is_sdma(args.queue_type)) return HsaStatus::kSuccess;
  // The 9.4 generation needs an end-of-pipe buffer for PM4 only.
  const bool is_gfx94 = (gpu.node->gfx_version() & ~0xffu) == 0x9'0400;
  if (!is_gfx94 || request.type == hsa::HSA_QUEUE_COMPUTE) {
    HsaResult<std::uint64_t> buffer = memory_.allocate_internal(gpu, kEndOfPipeBytes, true);
    if (!buffer) return HsaStatus::kNoMemory;
    queue.end_of_pipe = args.eop_buffer_address = buffer.value();
    args.eop_buffer_size = kEndOfPipeBytes;
  }
  const SaveAreaSizes sizes = save_area_sizes(*gpu.node);
  if (sizes.context_bytes != 0) {
    HsaResult<std::uint64_t> area = memory_.allocate_internal(gpu, sizes.total_bytes, false);
    if (!area) return HsaStatus::kNoMemory;
    queue.save_area = args.ctx_save_restore_address = area.value();
    args.ctx_save_restore_size = sizes.context_bytes;
    args.ctl_stack_size = sizes.control_stack_bytes;
  }
  return HsaStatus::kSuccess;
}

void ThunkQueues::free_buffers(std::uint64_t page, const Queue& queue) {
  if (queue.end_of_pipe != 0) memory_.free_internal(queue.end_of_pipe);
  if (queue.save_area != 0) memory_.free_internal(queue.save_area);
  memory_.free_internal(page);
}

const ThunkQueues::Queue* ThunkQueues::find(QueueHandle handle) const {
  const auto queue = queues_.find(handle);
  return queue == queues_.end() ? nullptr : &queue->second;
}

HsaStatus ThunkQueues::destroy(QueueHandle handle) {
  const Queue* const queue = find(handle);
  if (!queue) return HsaStatus::kInvalidParameter;
  kfd_ioctl_destroy_queue_args args{};
  args.queue_id = queue->kfd_id;
  if (!gpus_.ioctl<DestroyQueue>(args)) return HsaStatus::kError;
  free_buffers(static_cast<std::uint64_t>(handle), *queue);
  queues_.erase(handle);
  return HsaStatus::kSuccess;
}

HsaStatus ThunkQueues::update(QueueHandle handle, std::uint32_t percentage, std::int64_t priority,
                              std::uint64_t ring_address, std::uint64_t ring_bytes) {
  const auto mapped_priority = kfd_priority(priority);
  if (!mapped_priority) return HsaStatus::kInvalidParameter;
  const Queue* const queue = find(handle);
  if (!queue) return HsaStatus::kInvalidHandle;
  kfd_ioctl_update_queue_args args{};
  args.queue_id = queue->kfd_id;
  args.ring_base_address = ring_address;
  args.ring_size = static_cast<std::uint32_t>(ring_bytes);
  args.queue_percentage = percentage;
  args.queue_priority = *mapped_priority;
  return gpus_.ioctl<UpdateQueue>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaStatus ThunkQueues::set_cu_mask(QueueHandle handle, std::span<const std::uint32_t> mask) {
  const Queue* const queue = find(handle);
  if (!queue || mask.empty()) return HsaStatus::kInvalidParameter;
  std::vector<std::uint32_t> words(mask.begin(), mask.end());
  const HostAddressSpace::Staged staged(gpus_.process().memory(), std::as_writable_bytes(std::span(words)));
  kfd_ioctl_set_cu_mask_args args{};
  args.queue_id = queue->kfd_id;
  args.num_cu_mask = static_cast<std::uint32_t>(words.size() * 32);
  args.cu_mask_ptr = staged.address();
  return gpus_.ioctl<SetCuMask>(args) ? HsaStatus::kSuccess : HsaStatus::kError;
}

HsaResult<std::uint32_t> ThunkQueues::allocate_gws(QueueHandle handle, std::uint32_t count) {
  const Queue* const queue = find(handle);
  if (!queue) return HsaStatus::kInvalidParameter;
  kfd_ioctl_alloc_queue_gws_args args{};
  args.queue_id = queue->kfd_id;
  args.num_gws = count;
  if (!gpus_.ioctl<AllocQueueGws>(args)) return HsaStatus::kError;
  return args.first_gws;
}

BlobOpener ThunkQueues::doorbell_opener(std::uint64_t node_id) const {
  const auto offset = doorbell_offsets_.find(node_id);
  if (offset == doorbell_offsets_.end()) return {};
  return [&process = gpus_.process(), file = gpus_.kfd(), at = offset->second] {
    return process.map(file, at, kDoorbellPageBytes);
  };
}

}  // namespace understudy::virtio_gpu
