#include "sim/xdna/hwctx.h"

#include <algorithm>

#include "sim/xdna/npu_memory.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

// tdr_timeout_ms of the driver: how long a command may make no progress.
constexpr std::uint64_t kTdrTimeoutNs = 2'000'000'000;

std::span<std::byte> bytes_of(const XdnaBo& bo) {
  if (!bo.buffer()) return {};
  const auto bytes = bo.buffer()->bytes();
  return bytes ? bytes.value() : std::span<std::byte>{};
}

}  // namespace

struct HwContext::Execution {
  // kFence: the job failed before firmware saw it; the packet stays as the user wrote it.
  enum class Ending : std::uint8_t { kState, kFence, kStuck } ending = Ending::kState;
  ErtState state = ErtState::kCompleted;
  int fence_error = 0;
  std::uint32_t chain_index = 0;
  bool is_chain = false;
  XdnaBoRef first_of_chain;
  HealthRecord health;
};

const HwContext::Execution HwContext::kAborted{.state = ErtState::kAbort};

HwContext::HwContext(XdnaFile& file, const uapi::amdxdna::amdxdna_qos_info& qos, Columns columns,
                     std::vector<XdnaBoRef> internal_buffers)
    : npu_(file.npu()),
      heap_(file.heap()),
      file_(file.weak_from_this()),
      owner_(file.opener()),
      qos_(qos),
      columns_(columns),
      internal_buffers_(std::move(internal_buffers)),
      completion_(std::make_shared<drm::Syncobj>()) {}

unsigned HwContext::first_column() const {
  return npu_.profile().temporal_only() ? 0 : columns_.first;
}

unsigned HwContext::occupied_columns() const {
  return npu_.profile().temporal_only() ? npu_.profile().usable_columns : columns_.count;
}

std::uint64_t HwContext::heap_used_bytes() const {
  return heap_->used_bytes();
}

ContextCounters HwContext::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

HealthRecord HwContext::last_health() const {
  const std::lock_guard lock(mutex_);
  return last_health_;
}

bool HwContext::busy() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void HwContext::account(const Call& call) {
  entry_ = npu_.machine().ledger().open(ObjectKind::kContext, &call,
                                        "hwctx " + std::to_string(id_) + " on " + npu_.label());
}

bool HwContext::configured() const {
  const std::lock_guard lock(mutex_);
  return !units_.empty();
}

Result<void> HwContext::configure(std::vector<ComputeUnit> units) {
  const std::lock_guard lock(mutex_);
  if (!units_.empty()) return Errno(EINVAL);
  units_ = std::move(units);
  return {};
}

Result<std::uint64_t> HwContext::submit(Job job) {
  auto queued = std::make_shared<Job>(std::move(job));
  bool start = false;
  {
    const std::lock_guard lock(mutex_);
    if (destroyed_) return Errno(EINVAL);
    if (queue_.size() >= kJobsInFlight) return Errno(EAGAIN);
    queued->sequence = next_sequence_++;
    queued->fence =
        std::make_shared<drm::Fence>("amdxdna", "hwctx." + std::to_string(id_), 0, queued->sequence);
    completion_->add_point(queued->fence, queued->sequence);
    for (const XdnaBoRef& bo : queued->arguments) bo->reservation().add(queued->fence);
    queue_.push_back(queued);
    ++counters_.submissions;
    start = !std::exchange(running_, true);
  }
  if (start) npu_.machine().reactor().post([self = shared_from_this()] { self->run_next(); });
  return queued->sequence;
}

void HwContext::wait_for_slot(std::function<void()> retry) {
  {
    const std::lock_guard lock(mutex_);
    if (!destroyed_ && queue_.size() >= kJobsInFlight) {
      slot_waiters_.push_back(std::move(retry));
      return;
    }
  }
  retry();
}

void HwContext::when_done(std::uint64_t sequence, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    if (sequence >= first_unfinished_ && sequence < next_sequence_) {
      done_waiters_.emplace(sequence, std::move(done));
      return;
    }
  }
  done();
}

void HwContext::run_next() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty() || destroyed_) {
      running_ = false;
      return;
    }
    job = queue_.front();
  }
  Execution execution;
  const PointDecision firmware = npu_.machine().hooks().at(FaultPoint::kFirmware, npu_.label(), owner_.get());
  if (npu_.firmware_hangs() || firmware == PointDecision::kStick || firmware == PointDecision::kDrop) {
    execution.ending = Execution::Ending::kStuck;
  } else if (job->command) {
    execution = execute(*job);
  }
  if (execution.ending != Execution::Ending::kStuck) {
    end_front(job, execution);
    return;
  }
  // Nothing will ever move it: the watchdog takes it out.
  npu_.machine().clock().after(kTdrTimeoutNs, [self = shared_from_this(), job, execution]() mutable {
    execution.ending = Execution::Ending::kState;
    execution.state = ErtState::kTimeout;
    self->end_front(job, execution);
  });
}

HwContext::Execution HwContext::execute(const Job& job) {
  Execution execution;
  const auto fail_fence = [&](int error) {
    execution.ending = Execution::Ending::kFence;
    execution.fence_error = error;
    return execution;
  };
  // Closed meanwhile: release() is about to abort everything.
  const auto file = std::static_pointer_cast<XdnaFile>(file_.lock());
  if (!file) return kAborted;
  const std::optional<ErtPacket> packet = read_packet(bytes_of(*job.command));
  if (!packet) return fail_fence(EINVAL);

  std::vector<ErtPacket> packets;
  if (packet->opcode == ErtOpcode::kCommandChain) {
    execution.is_chain = true;
    const std::optional<ErtChain> chain = read_chain(packet->payload);
    if (!chain || chain->command_count == 0) return fail_fence(EINVAL);
    std::size_t slots = 0;
    for (const std::uint64_t handle : chain->handles) {
      const Result<XdnaBoRef> bo = file->lookup_bo(static_cast<std::uint32_t>(handle));
      if (!bo || bo.value()->type() != BoType::kShare) return fail_fence(ENOENT);
      if (!execution.first_of_chain) execution.first_of_chain = bo.value();
      const std::optional<ErtPacket> part = read_packet(bytes_of(*bo.value()));
      if (!part || (!packets.empty() && part->opcode != packets.front().opcode)) return fail_fence(EINVAL);
      const std::optional<std::size_t> slot = slot_bytes(*part);
      if (!slot || (slots += *slot) > 4096) return fail_fence(EINVAL);
      packets.push_back(*part);
    }
  } else {
    if (!slot_bytes(*packet)) return fail_fence(EOPNOTSUPP);
    packets.push_back(*packet);
  }

  std::vector<XdnaBoRef> reachable = file->bos();
  reachable.insert(reachable.end(), job.arguments.begin(), job.arguments.end());
  const NpuMemory memory(heap_, reachable, owner_.get());
  Watchdog watchdog([&] { return is_front(job); });
  for (std::size_t i = 0; i < packets.size(); ++i) {
    execution.chain_index = static_cast<std::uint32_t>(i);
    if (!packets[i].cu_index) return fail_fence(EINVAL);
    const Verdict verdict = run_packet(packets[i], memory, watchdog, &execution.health);
    if (verdict.kind == Verdict::Kind::kCompleted) continue;
    if (verdict.kind == Verdict::Kind::kUnsupported && npu_.machine().settings().npu_complete_unsupported) {
      Finding finding;
      finding.kind = FindingKind::kSkippedWork;
      finding.text = npu_.label() + ": a command that needs AIE cores was completed without being executed";
      npu_.machine().ledger().report(std::move(finding));
      continue;
    }
    execution.state = verdict.kind == Verdict::Kind::kStopped ? ErtState::kTimeout : ErtState::kError;
    return execution;
  }
  return execution;
}

bool HwContext::is_front(const Job& job) const {
  const std::lock_guard lock(mutex_);
  return !destroyed_ && !queue_.empty() && queue_.front().get() == &job;
}

Verdict HwContext::run_packet(const ErtPacket& packet, const NpuMemory& memory, Watchdog& watchdog,
                              HealthRecord* health) const {
  ComputeUnit unit;
  {
    const std::lock_guard lock(mutex_);
    if (*packet.cu_index >= units_.size()) return {Verdict::Kind::kError, 0};
    unit = units_[*packet.cu_index];
  }
  const std::optional<Invocation> invocation = read_invocation(packet);
  // Without a transaction there is only what the CU's cores would do.
  if (!invocation) return {Verdict::Kind::kUnsupported, 0};
  constexpr std::uint64_t kMaxInstructionBytes = std::uint64_t{64} << 20;
  if (invocation->instruction_bytes > kMaxInstructionBytes ||
      !memory.covers(invocation->instruction_address, invocation->instruction_bytes, false)) {
    return {Verdict::Kind::kError, 0};
  }
  std::vector<std::byte> instructions(invocation->instruction_bytes);
  if (!memory.read(invocation->instruction_address, instructions)) return {Verdict::Kind::kError, 0};
  std::vector<std::byte> pdi(std::min<std::uint64_t>(unit.pdi->size_bytes(), sizeof kPassThroughPdiMagic));
  const bool pass_through = memory.read(unit.pdi->device_address(), pdi) && is_pass_through_pdi(pdi);
  const NpuProfile& profile = npu_.profile();
  const TransactionLimits limits{0, profile.columns, profile.rows};
  const Verdict verdict = run_transaction(instructions, *invocation, memory, limits, watchdog, pass_through);
  health->txn_op_index = verdict.operation_index;
  return verdict;
}

void HwContext::write_outcome(const Job& job, const Execution& execution) {
  if (!job.command || execution.ending == Execution::Ending::kFence) return;
  const std::span<std::byte> command = bytes_of(*job.command);
  if (command.size() < kErtHeaderBytes) return;
  const bool failed = execution.state != ErtState::kCompleted;
  if (failed && execution.is_chain) write_chain_error_index(command, execution.chain_index);
  if (failed && execution.state != ErtState::kAbort) {
    const std::span<std::byte> blamed = execution.first_of_chain ? bytes_of(*execution.first_of_chain)
                                        : execution.is_chain     ? std::span<std::byte>{}
                                                                 : command;
    if (blamed.size() >= kErtHeaderBytes) write_health(blamed, execution.health);
  }
  write_state(command, execution.state);
}

void HwContext::end_front(const std::shared_ptr<Job>& job, const Execution& execution) {
  std::vector<std::function<void()>> ready;
  std::vector<std::shared_ptr<Job>> aborted;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    // Destroyed meanwhile: destroy() has ended it already.
    if (queue_.empty() || queue_.front() != job) return;
    write_outcome(*job, execution);
    const bool failed =
        execution.ending == Execution::Ending::kFence || execution.state != ErtState::kCompleted;
    ++counters_.completions;
    counters_.errors += failed;
    if (failed) last_health_ = execution.health;
    queue_.pop_front();
    first_unfinished_ = job->sequence + 1;
    if (execution.state == ErtState::kTimeout) {
      // Recovery restarts the context: what was in flight with the blamed job is aborted.
      aborted.assign(queue_.begin(), queue_.end());
      queue_.clear();
      for (const std::shared_ptr<Job>& victim : aborted) write_outcome(*victim, kAborted);
      counters_.completions += aborted.size();
      counters_.errors += aborted.size();
      if (!aborted.empty()) first_unfinished_ = aborted.back()->sequence + 1;
    }
    ready.swap(slot_waiters_);
    more = !queue_.empty();
    running_ = more;
    while (!done_waiters_.empty() && done_waiters_.begin()->first < first_unfinished_) {
      ready.push_back(std::move(done_waiters_.begin()->second));
      done_waiters_.erase(done_waiters_.begin());
    }
  }
  const PointDecision decision =
      npu_.machine().hooks().at(FaultPoint::kCompletion, npu_.label(), owner_.get());
  if (decision != PointDecision::kDrop) job->fence->signal(execution.fence_error);
  for (const std::shared_ptr<Job>& victim : aborted) victim->fence->signal();
  for (const auto& function : ready) function();
  if (more) npu_.machine().reactor().post([self = shared_from_this()] { self->run_next(); });
}

void HwContext::abort_in_flight() {
  abort(false);
}

void HwContext::destroy() {
  abort(true);
}

void HwContext::abort(bool for_good) {
  std::deque<std::shared_ptr<Job>> aborted;
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard lock(mutex_);
    if (destroyed_) return;
    destroyed_ = for_good;
    aborted.swap(queue_);
    for (const std::shared_ptr<Job>& job : aborted) write_outcome(*job, kAborted);
    counters_.completions += aborted.size();
    counters_.errors += aborted.size();
    first_unfinished_ = next_sequence_;
    running_ = false;
    ready.swap(slot_waiters_);
    for (auto& [sequence, done] : done_waiters_) ready.push_back(std::move(done));
    done_waiters_.clear();
    if (for_good) entry_ = {};
  }
  for (const std::shared_ptr<Job>& job : aborted) job->fence->signal();
  for (const auto& function : ready) function();
}

}  // namespace understudy::xdna
