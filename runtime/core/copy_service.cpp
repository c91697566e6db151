#include "runtime/core/copy_service.h"

#include <algorithm>
#include <cstring>

namespace hsa_rt {
namespace {

void work_on_cpu(std::span<const CopySegment> segments, std::optional<uint32_t> fill_value) {
  for (const CopySegment& segment : segments) {
    auto* destination = reinterpret_cast<std::byte*>(segment.destination);
    if (fill_value) {
      auto* dwords = reinterpret_cast<uint32_t*>(destination);
      std::fill_n(dwords, segment.size_bytes / sizeof(uint32_t), *fill_value);
    } else {
      std::memmove(destination, reinterpret_cast<const std::byte*>(segment.source), segment.size_bytes);
    }
  }
}

// Locks user memory for a GPU while in scope.
class TemporaryLock {
 public:
  static Status<TemporaryLock> take(AllocationTable& allocations, const void* address, uint64_t size_bytes,
                                    Agent& agent) {
    void* const host = const_cast<void*>(address);
    Agent* const agents[] = {&agent};
    void* const seen = TRY(allocations.lock_user_memory(host, size_bytes, agents));
    return TemporaryLock(&allocations, host, reinterpret_cast<uint64_t>(seen));
  }

  TemporaryLock(TemporaryLock&& other) noexcept
      : allocations_(std::exchange(other.allocations_, nullptr)),
        host_(other.host_),
        address_(other.address_) {}
  TemporaryLock& operator=(TemporaryLock&&) = delete;
  ~TemporaryLock() {
    if (allocations_ != nullptr) (void)allocations_->unlock_user_memory(host_);
  }

  uint64_t address() const { return address_; }

 private:
  TemporaryLock(AllocationTable* allocations, void* host, uint64_t address)
      : allocations_(allocations), host_(host), address_(address) {}
  AllocationTable* allocations_;
  void* host_;
  uint64_t address_;
};

}  // namespace

Status<CopyEngine*> CopyService::engine(Agent& agent, Direction direction) {
  const std::lock_guard guard(lock_);
  std::unique_ptr<CopyEngine>& engine = engines_[{&agent, direction}];
  if (engine == nullptr) engine = TRY(or_status(agent.device().create_copy_engine()));
  return engine.get();
}

Status<void> CopyService::submit(Agent& agent, std::vector<CopySegment> segments,
                                 std::optional<uint32_t> fill_value,
                                 std::vector<std::shared_ptr<Signal>> dependencies,
                                 std::shared_ptr<Signal> completion) {
  if (agent.kind() == DeviceKind::kGpu) {
    return submit_to_engine(agent, segments, fill_value, dependencies, completion);
  }
  events_.run_after(std::move(dependencies),
                    [segments = std::move(segments), fill_value, completion = std::move(completion),
                     stamp = timestamps_.load()] {
                      SignalSlot& slot = completion->slot();
                      slot.copy_agent = {0};
                      if (stamp) slot.copy_start_ts = now_ns();
                      work_on_cpu(segments, fill_value);
                      if (stamp) slot.copy_end_ts = now_ns();
                      slot.value().fetch_sub(1, std::memory_order_seq_cst);
                      completion->value_changed();
                    });
  return {};
}

Status<void> CopyService::submit_to_engine(Agent& agent, std::span<const CopySegment> segments,
                                           std::optional<uint32_t> fill_value,
                                           std::span<const std::shared_ptr<Signal>> dependencies,
                                           const std::shared_ptr<Signal>& completion) {
  std::vector<uint64_t> wait_for_zero;
  for (const auto& dependency : dependencies) {
    wait_for_zero.push_back(reinterpret_cast<uint64_t>(&dependency->slot().amd.value));
  }
  SignalSlot& slot = completion->slot();
  slot.copy_agent = agent.handle();
  CopyJob job;
  job.segments = segments;
  job.fill_value = fill_value;
  job.wait_for_zero = wait_for_zero;
  job.completion.value_address = reinterpret_cast<uint64_t>(&slot.amd.value);
  job.completion.mailbox_address = slot.amd.event_mailbox_ptr;
  job.completion.event_id = slot.amd.event_id;
  if (timestamps_) {
    job.completion.start_timestamp_address = reinterpret_cast<uint64_t>(&slot.copy_start_ts);
    job.completion.end_timestamp_address = reinterpret_cast<uint64_t>(&slot.copy_end_ts);
  }
  // One engine for each direction, so that the two do not wait for one another.
  const Place target = place_of(reinterpret_cast<void*>(segments.front().destination), 1);
  const bool to_device = target.owner == &agent;
  CopyEngine* const chosen = TRY(engine(agent, to_device ? Direction::kToDevice : Direction::kFromDevice));
  return or_status(chosen->submit(job));
}

Status<void> CopyService::run_and_wait(Agent& agent, const CopySegment& segment,
                                       std::optional<uint32_t> fill_value) {
  const std::shared_ptr<Signal> done = TRY(signals_.create(1, true));
  const SignalCondition is_done{done.get(), HSA_SIGNAL_CONDITION_EQ, 0};
  Status<void> outcome = submit(agent, {segment}, fill_value, {}, done);
  if (outcome) wait_any(signals_, {&is_done, 1}, kWaitForever);
  signals_.forget(done->handle());
  return outcome;
}

bool CopyService::Place::reachable_by(const Agent* gpu) const {
  return std::ranges::find(gpus, gpu) != gpus.end();
}

CopyService::Place CopyService::place_of(const void* address, uint64_t size_bytes) {
  AddressSpan wanted;
  if (!AddressSpan::make(address, size_bytes, wanted)) return {};
  std::vector<Agent*> agents;
  Place place;
  if (const auto allocation = allocations_.describe(address);
      allocation && allocation->agent_span.contains(wanted)) {
    place.cpu = allocation->host_base == allocation->agent_span.pointer();
    place.owner = allocation->owner;
    agents = allocation->agents;
  } else if (const auto mapping = vmem_.describe(address);
             mapping && mapping->pool != nullptr && mapping->span.contains(wanted)) {
    place.cpu = mapping->cpu_can_read;
    place.owner = &mapping->pool->owner();
    agents = mapping->agents;
  } else {
    return {};
  }
  place.known = true;
  std::ranges::copy_if(agents, std::back_inserter(place.gpus),
                       [](const Agent* agent) { return agent->kind() == DeviceKind::kGpu; });
  std::ranges::stable_partition(place.gpus, [&](const Agent* agent) { return agent == place.owner; });
  return place;
}

Status<void> CopyService::copy(void* destination, const void* source, uint64_t size_bytes) {
  const Place from = place_of(source, size_bytes);
  const Place to = place_of(destination, size_bytes);
  CopySegment segment{reinterpret_cast<uint64_t>(destination), reinterpret_cast<uint64_t>(source),
                      size_bytes};
  if (from.cpu && to.cpu) {
    work_on_cpu({&segment, 1}, std::nullopt);
    return {};
  }
  if (from.known && to.known) {
    if (from.gpus.empty() || to.gpus.empty()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    for (Agent* gpu : from.gpus) {
      if (to.reachable_by(gpu)) return run_and_wait(*gpu, segment, std::nullopt);
    }
    return copy_by_way_of_host(segment, *from.gpus.front(), *to.gpus.front());
  }
  // One side is ordinary process memory.
  const std::vector<Agent*>& gpus = from.known ? from.gpus : to.gpus;
  if (gpus.empty()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const TemporaryLock lock =
      TRY(TemporaryLock::take(allocations_, from.known ? destination : source, size_bytes, *gpus.front()));
  (from.known ? segment.destination : segment.source) = lock.address();
  return run_and_wait(*gpus.front(), segment, std::nullopt);
}

Status<void> CopyService::copy_by_way_of_host(const CopySegment& segment, Agent& from, Agent& to) {
  Pool* const host_pool = agents_.system_pool();
  if (host_pool == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  void* const staging = TRY(allocations_.allocate(*host_pool, segment.size_bytes, {.for_all_agents = true}));
  const uint64_t between = reinterpret_cast<uint64_t>(staging);
  Status<void> outcome = run_and_wait(from, {between, segment.source, segment.size_bytes}, std::nullopt);
  if (outcome) outcome = run_and_wait(to, {segment.destination, between, segment.size_bytes}, std::nullopt);
  (void)allocations_.free(staging);
  return outcome;
}

Status<void> CopyService::fill(void* destination, uint32_t value, uint64_t dword_count) {
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(dword_count, sizeof(uint32_t), &size_bytes))
    return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const Place place = place_of(destination, size_bytes);
  if (!place.known) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const CopySegment segment{reinterpret_cast<uint64_t>(destination), 0, size_bytes};
  if (!place.gpus.empty()) return run_and_wait(*place.gpus.front(), segment, value);
  if (!place.cpu) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  work_on_cpu({&segment, 1}, value);
  return {};
}

}  // namespace hsa_rt
