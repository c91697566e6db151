// Queues of NPUs. There is no packet processor: whoever stores to the doorbell runs the packets up to the
// write index, in order, and returns when they are done, as programs for this agent expect. Consecutive
// commands go down as one batch.
#include <algorithm>
#include <cstring>

#include "runtime/core/queue.h"
#include "runtime/core/signal_wait.h"

namespace hsa_rt {
namespace {

constexpr uint64_t kPacketBytes = 64;

class NpuQueue final : public Queue {
 public:
  NpuQueue(const QueueParts& parts, Agent& agent, const QueueRequest& request,
           std::unique_ptr<BackedRange> descriptor, std::unique_ptr<BackedRange> ring,
           std::unique_ptr<CommandContext> context)
      : Queue(&agent, std::move(descriptor)),
        parts_(parts),
        request_(request),
        ring_(std::move(ring)),
        context_(std::move(context)) {}

  ~NpuQueue() override {
    if (doorbell_ != nullptr) parts_.signals.forget(doorbell_->handle());
  }

  Status<void> start() {
    write_invalid_packets(ring_->data(), request_.packet_count);
    doorbell_ = TRY(parts_.signals.create_doorbell([this] { run_packets(); }));
    hsa_queue_t& view = *handle();
    view.type = HSA_QUEUE_TYPE_SINGLE;
    view.features = HSA_QUEUE_FEATURE_AGENT_DISPATCH;
    view.base_address = ring_->data();
    view.doorbell_signal = doorbell_->handle();
    view.size = request_.packet_count;
    view.id = next_queue_id();
    return {};
  }

  Status<void> inactivate() override {
    const std::lock_guard guard(lock_);
    active_ = false;
    return {};
  }

  Status<void> set_priority(QueuePriority) override { return {}; }

 private:
  using Packet = hsa_amd_aie_ert_packet_t;
  static_assert(sizeof(Packet) == kPacketBytes);

  Packet& packet(uint64_t index) {
    return static_cast<Packet*>(ring_->data())[index & (request_.packet_count - 1)];
  }

  static uint8_t type_of(const Packet& packet) {
    const uint16_t header =
        std::atomic_ref(const_cast<uint16_t&>(packet.header.header)).load(std::memory_order_acquire);
    return static_cast<uint8_t>(header >> HSA_PACKET_HEADER_TYPE);
  }

  static bool is_command(const Packet& packet) {
    return type_of(packet) == HSA_PACKET_TYPE_VENDOR_SPECIFIC &&
           packet.header.AmdFormat == HSA_AMD_PACKET_TYPE_AIE_ERT;
  }

  void run_packets() {
    const std::lock_guard guard(lock_);
    std::atomic_ref read_index(const_cast<uint64_t&>(amd_queue().read_dispatch_id));
    std::atomic_ref write_index(const_cast<uint64_t&>(amd_queue().write_dispatch_id));
    uint64_t next = read_index.load(std::memory_order_relaxed);
    while (active_ && next < write_index.load(std::memory_order_acquire)) {
      if (type_of(packet(next)) == HSA_PACKET_TYPE_INVALID) return;  // reserved but not written yet
      uint64_t end = next + 1;
      hsa_status_t status = HSA_STATUS_SUCCESS;
      if (is_command(packet(next))) {
        const uint64_t last = write_index.load(std::memory_order_acquire);
        while (end < last && is_command(packet(end)) && packet(end).opcode == packet(next).opcode) ++end;
        status = run_commands(next, end);
      } else {
        status = run_barrier(packet(next));
      }
      for (; next < end; ++next)
        packet(next).header.header = HSA_PACKET_TYPE_INVALID << HSA_PACKET_HEADER_TYPE;
      read_index.store(next, std::memory_order_release);
      if (status != HSA_STATUS_SUCCESS) {
        active_ = false;
        if (request_.callback != nullptr) request_.callback(status, handle(), request_.callback_data);
      }
    }
  }

  hsa_status_t run_commands(uint64_t begin, uint64_t end) {
    std::vector<NpuCommand> commands;
    for (uint64_t index = begin; index < end; ++index) {
      Packet& source = packet(index);
      const auto* payload = reinterpret_cast<const hsa_amd_aie_ert_start_kernel_data_t*>(source.payload_data);
      if (payload == nullptr) return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
      NpuCommand command;
      command.opcode = source.opcode;
      command.configuration_address = reinterpret_cast<uint64_t>(payload->pdi_addr);
      command.words = {payload->data, source.count};
      commands.push_back(command);
    }
    std::vector<CommandState> states(commands.size(), CommandState::kNew);
    const Result<void> ran = context_->run(commands, states);
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (size_t i = 0; i < states.size(); ++i) {
      packet(begin + i).state = static_cast<uint32_t>(states[i]);
      if (states[i] != CommandState::kCompleted) status = HSA_STATUS_ERROR;
    }
    if (ran) return status;
    switch (ran.error().value) {
      case EFAULT:
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
      case EINVAL:
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
      default:
        return status_of(ran.error());
    }
  }

  hsa_status_t run_barrier(const Packet& raw) {
    const uint8_t type = type_of(raw);
    if (type != HSA_PACKET_TYPE_BARRIER_AND && type != HSA_PACKET_TYPE_BARRIER_OR) {
      return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
    hsa_barrier_and_packet_t barrier;
    std::memcpy(&barrier, &raw, sizeof(barrier));
    std::vector<std::shared_ptr<Signal>> dependencies;
    std::vector<SignalCondition> conditions;
    for (const hsa_signal_t& handle : barrier.dep_signal) {
      if (handle.handle == 0) continue;
      dependencies.push_back(parts_.signals.find(handle));
      if (dependencies.back() == nullptr) return HSA_STATUS_ERROR_INVALID_SIGNAL;
      conditions.push_back({dependencies.back().get(), HSA_SIGNAL_CONDITION_EQ, 0});
    }
    if (!conditions.empty()) {
      std::vector<hsa_signal_value_t> values(conditions.size());
      if (type == HSA_PACKET_TYPE_BARRIER_AND) {
        wait_all(parts_.signals, conditions, kWaitForever, values);
      } else {
        wait_any(parts_.signals, conditions, kWaitForever);
      }
    }
    if (barrier.completion_signal.handle == 0) return HSA_STATUS_SUCCESS;
    const std::shared_ptr<Signal> completion = parts_.signals.find(barrier.completion_signal);
    if (completion == nullptr) return HSA_STATUS_ERROR_INVALID_SIGNAL;
    completion->slot().value().fetch_sub(1, std::memory_order_seq_cst);
    completion->value_changed();
    return HSA_STATUS_SUCCESS;
  }

  const QueueParts& parts_;
  const QueueRequest request_;
  const std::unique_ptr<BackedRange> ring_;
  const std::unique_ptr<CommandContext> context_;
  std::shared_ptr<Signal> doorbell_;
  std::recursive_mutex lock_;  // an error callback may inactivate the queue
  bool active_ = true;
};

}  // namespace

Status<std::shared_ptr<Queue>> make_npu_queue(const QueueParts& parts, Agent& agent,
                                              const QueueRequest& request) {
  auto context =
      TRY(agent.device().create_command_context().error_as(HSA_STATUS_ERROR_INVALID_QUEUE_CREATION));
  auto descriptor = TRY(
      allocate_shared_pages(parts, nullptr, sizeof(amd_queue_t)).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  auto ring = TRY(allocate_shared_pages(parts, nullptr, request.packet_count * kPacketBytes)
                      .error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  auto queue = std::make_shared<NpuQueue>(parts, agent, request, std::move(descriptor), std::move(ring),
                                          std::move(context));
  TRY(queue->start());
  return std::shared_ptr<Queue>(std::move(queue));
}

}  // namespace hsa_rt
