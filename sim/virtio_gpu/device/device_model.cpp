#include "sim/virtio_gpu/device/device_model.h"

#include <algorithm>
#include <condition_variable>

#include "sim/virtio_gpu/device/capsets.h"

namespace understudy::virtio_gpu {
namespace {

constexpr std::uint64_t bit(std::uint32_t feature) {
  return std::uint64_t{1} << feature;
}

}  // namespace

DeviceModel::DeviceModel(GuestMemory& memory, DeviceProperties properties, const Behaviour& behaviour,
                         std::vector<std::unique_ptr<ContextType>> context_types, AnswerFault answer_fault)
    : properties_(std::move(properties)),
      behaviour_(behaviour),
      memory_(memory),
      answer_fault_(std::move(answer_fault)),
      region_(properties_.hostmem_bytes),
      display_(properties_),
      renderer_(std::move(context_types)) {
  const DeviceParts parts{memory_, properties_, behaviour_, display_, region_};
  model_ = properties_.gl ? make_gl_model(parts, renderer_) : make_2d_model(parts);
}

DeviceModel::~DeviceModel() {
  reset();
}

// Queues and the rest of the state belong to the strand; whoever wants to know waits for its turn.
template <typename Function>
void DeviceModel::run_and_wait(Function function) {
  std::mutex done_mutex;
  std::condition_variable done_changed;
  bool done = false;
  strand_.post([&] {
    function();
    const std::lock_guard lock(done_mutex);
    done = true;
    done_changed.notify_one();
  });
  std::unique_lock lock(done_mutex);
  done_changed.wait(lock, [&] { return done; });
}

std::uint64_t DeviceModel::offered_features() const {
  std::uint64_t features = bit(abi::VIRTIO_RING_F_INDIRECT_DESC) | bit(abi::VIRTIO_RING_F_EVENT_IDX) |
                           bit(abi::VIRTIO_F_VERSION_1) | bit(abi::VIRTIO_F_RING_RESET);
  if (properties_.edid) features |= bit(abi::VIRTIO_GPU_F_EDID);
  if (properties_.gl) features |= bit(abi::VIRTIO_GPU_F_VIRGL);
  if (properties_.blob) features |= bit(abi::VIRTIO_GPU_F_RESOURCE_BLOB);
  if (properties_.offers_context_init(behaviour_)) features |= bit(abi::VIRTIO_GPU_F_CONTEXT_INIT);
  if (properties_.userptr_feature) features |= bit(abi::VIRTIO_GPU_F_RESOURCE_USERPTR);
  return features;
}

void DeviceModel::accept_features(std::uint64_t features) {
  const std::lock_guard lock(mutex_);
  features_ = features & offered_features();
}

RingFeatures DeviceModel::ring_features() const {
  const std::lock_guard lock(mutex_);
  return {(features_ & bit(abi::VIRTIO_RING_F_INDIRECT_DESC)) != 0,
          (features_ & bit(abi::VIRTIO_RING_F_EVENT_IDX)) != 0};
}

abi::virtio_gpu_config DeviceModel::config() const {
  abi::virtio_gpu_config config{};
  config.num_scanouts = properties_.max_outputs;
  config.num_capsets =
      static_cast<std::uint32_t>(advertised_capsets(properties_, behaviour_, renderer_).size());
  const std::lock_guard lock(mutex_);
  config.events_read = events_;
  return config;
}

void DeviceModel::clear_events(std::uint32_t events) {
  const std::lock_guard lock(mutex_);
  events_ &= ~events;
}

std::uint16_t DeviceModel::queue_size(QueueIndex index) const {
  if (index == QueueIndex::kCursor) return 16;
  return properties_.gl ? 256 : 64;
}

HostVisibleRegion* DeviceModel::shared_memory(std::uint32_t id) {
  if (id != abi::VIRTIO_GPU_SHM_ID_HOST_VISIBLE || region_.size_bytes() == 0) return nullptr;
  return &region_;
}

Result<void> DeviceModel::set_up_queue(QueueIndex index, const VirtqueueAddresses& addresses) {
  Result<DeviceQueue> ring = DeviceQueue::create(memory_, addresses, ring_features());
  if (!ring) return ring.error();
  run_and_wait([&] { queues_[static_cast<std::size_t>(index)].ring = std::move(ring).value(); });
  return {};
}

void DeviceModel::set_interrupt(std::function<void(QueueIndex)> interrupt) {
  const std::lock_guard lock(mutex_);
  interrupt_ = std::make_shared<const std::function<void(QueueIndex)>>(std::move(interrupt));
}

void DeviceModel::interrupt(QueueIndex index) {
  std::shared_ptr<const std::function<void(QueueIndex)>> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = interrupt_;
  }
  if (handler && *handler) (*handler)(index);
}

void DeviceModel::kick(QueueIndex index) {
  strand_.post([this, index] { index == QueueIndex::kControl ? process_control() : process_cursor(); });
}

void DeviceModel::reset() {
  run_and_wait([this] {
    queues_ = {};
    fenced_.clear();
    retired_fence_ = 0;
    model_->reset();
    region_.clear();
    display_.reset();
    renderer_started_ = false;
    renderer_failed_ = false;
    const std::lock_guard lock(mutex_);
    features_ = 0;
    events_ = 0;
    broken_reason_.clear();
    broken_.store(false, std::memory_order_release);
  });
}

std::string DeviceModel::broken_reason() const {
  const std::lock_guard lock(mutex_);
  return broken_reason_;
}

void DeviceModel::lose_contexts() {
  strand_.post([this] { renderer_.lose_contexts(); });
}

std::size_t DeviceModel::resource_count() {
  std::size_t count = 0;
  run_and_wait([&] { count = model_->resource_count(); });
  return count;
}

std::size_t DeviceModel::unanswered_count() {
  std::size_t count = 0;
  run_and_wait([&] { count = fenced_.size(); });
  return count;
}

void DeviceModel::break_device(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  broken_reason_ = reason;
  broken_.store(true, std::memory_order_release);
}

bool DeviceModel::ensure_renderer() {
  if (!properties_.gl || renderer_started_) return !renderer_failed_;
  renderer_started_ = true;
  const Result<void> started = renderer_.start(advertised_capsets(properties_, behaviour_, renderer_));
  // Older device models carry on as if nothing had happened.
  renderer_failed_ = !started && behaviour_.renderer_failure_stops_queue;
  return !renderer_failed_;
}

void DeviceModel::process_control() {
  std::optional<DeviceQueue>& ring = queues_[static_cast<std::size_t>(QueueIndex::kControl)].ring;
  if (!ring || needs_reset() || !ensure_renderer()) return;
  for (;;) {
    PoppedRequest popped = ring->pop();
    if (std::holds_alternative<QueueEmpty>(popped)) break;
    if (const auto* broken = std::get_if<QueueBroken>(&popped)) {
      break_device(broken->reason);
      return;
    }
    execute(make_request(std::get<DescriptorChain>(std::move(popped))));
  }
}

void DeviceModel::process_cursor() {
  std::optional<DeviceQueue>& ring = queues_[static_cast<std::size_t>(QueueIndex::kCursor)].ring;
  if (!ring || needs_reset()) return;
  for (;;) {
    PoppedRequest popped = ring->pop();
    if (std::holds_alternative<QueueEmpty>(popped)) break;
    if (const auto* broken = std::get_if<QueueBroken>(&popped)) {
      break_device(broken->reason);
      return;
    }
    // Cursors are shown nowhere; a short request is consumed like any other.
    if (ring->push(std::get<DescriptorChain>(popped).head, 0)) interrupt(QueueIndex::kCursor);
  }
}

void DeviceModel::execute(Request request) {
  if (std::holds_alternative<HeaderlessCommand>(request.command) && !behaviour_.reports_malformed) {
    // Nobody answers it, but it is queued among the fenced ones, with a fence id of zero.
    fenced_.push_back(std::move(request));
    return;
  }
  const Response response = model_->execute(request);
  const bool waits =
      properties_.gl && request.is_fenced() && type_of(response) == abi::VIRTIO_GPU_RESP_OK_NODATA;
  if (!waits) {
    answer(request, response);
    return;
  }
  wait_for_fence(std::move(request));
}

void DeviceModel::wait_for_fence(Request request) {
  const bool on_ring =
      request.names_ring() && behaviour_.has_ring_fences && properties_.offers_context_init(behaviour_);
  if (!on_ring) {
    retired_fence_ = request.header.fence_id;
    fenced_.push_back(std::move(request));
    retire_global_fences();
    return;
  }
  const std::uint32_t context_id = request.header.ctx_id;
  const std::uint8_t ring = request.header.ring_idx;
  const std::uint64_t fence_id = request.header.fence_id;
  const Result<bool> retires = renderer_.retires_fence(context_id, ring);
  if (!retires && properties_.strict) {
    answer(request, NoData{abi::VIRTIO_GPU_RESP_ERR_INVALID_CONTEXT_ID});
    return;
  }
  // A fence that could not be made is waited for all the same, for ever.
  fenced_.push_back(std::move(request));
  if (retires && retires.value()) retire_ring_fence(context_id, ring, fence_id);
}

void DeviceModel::retire_global_fences() {
  const bool rings_apart = behaviour_.has_ring_fences && properties_.offers_context_init(behaviour_);
  std::deque<Request> retired;
  std::deque<Request> kept;
  for (Request& request : fenced_) {
    const bool mine = !(rings_apart && request.names_ring()) && request.header.fence_id <= retired_fence_;
    (mine ? retired : kept).push_back(std::move(request));
  }
  fenced_ = std::move(kept);
  for (const Request& request : retired) answer(request, NoData{});
}

void DeviceModel::retire_ring_fence(std::uint32_t context_id, std::uint8_t ring_index,
                                    std::uint64_t fence_id) {
  strand_.post([=, this] {
    std::deque<Request> retired;
    std::deque<Request> kept;
    for (Request& request : fenced_) {
      const bool mine = request.names_ring() && request.header.ctx_id == context_id &&
                        request.header.ring_idx == ring_index && request.header.fence_id <= fence_id;
      (mine ? retired : kept).push_back(std::move(request));
    }
    fenced_ = std::move(kept);
    for (const Request& request : retired) answer(request, NoData{});
  });
}

void DeviceModel::answer(const Request& request, const Response& response) {
  const PointDecision decision = answer_fault_ ? answer_fault_() : PointDecision::kPass;
  if (decision == PointDecision::kDrop || decision == PointDecision::kStick) return;

  std::vector<std::byte> bytes = encode_response(response, request.header);
  if (decision == PointDecision::kCorrupt) {
    for (std::byte& byte : bytes) byte ^= std::byte{0xa5};
  }
  // A response that does not fit is cut off, and the used length says so.
  const std::size_t written = copy_to(request.chain.writable, 0, bytes);
  std::optional<DeviceQueue>& ring = queues_[static_cast<std::size_t>(QueueIndex::kControl)].ring;
  if (!ring) return;
  bool wanted = ring->push(request.chain.head, static_cast<std::uint32_t>(written));
  if (decision == PointDecision::kDuplicate)
    wanted |= ring->push(request.chain.head, static_cast<std::uint32_t>(written));
  if (wanted) interrupt(QueueIndex::kControl);
}

}  // namespace understudy::virtio_gpu
