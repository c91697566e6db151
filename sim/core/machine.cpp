#include "sim/core/machine.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>

namespace understudy {
namespace {

constexpr std::uint64_t kSweepIntervalNs = 100'000'000;

std::string random_prefix() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  char text[40];
  std::snprintf(text, sizeof text, "understudy/%016llx", static_cast<unsigned long long>(value));
  return text;
}

// The open itself, as the hooks see it; the reply is the return value of Machine::open.
class OpenCall : public Call {
 public:
  using Call::Call;

 protected:
  void reply(int) override {}
};

std::uint64_t splitmix64(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

}  // namespace

Machine::Machine(Settings settings, std::unique_ptr<Clock> clock)
    : settings_(std::move(settings)),
      socket_prefix_(random_prefix()),
      clock_(clock ? std::move(clock) : std::make_unique<SystemClock>()),
      clients_(reactor_),
      files_(reactor_, socket_prefix_),
      dmabufs_(ledger_) {}

Machine::~Machine() {
  for (const FileRef& file : files_.all()) files_.remove(file->id());
  for (const ClientRef& client : clients_.all()) clients_.retire(client);
  reactor_.stop();
  clock_->stop();
  // Exported objects refer to their devices, which go with kept_.
  dmabufs_.clear();
}

void Machine::add_node(std::shared_ptr<Node> node) {
  nodes_.push_back(std::move(node));
}

Node* Machine::node(std::string_view path) const {
  for (const auto& node : nodes_) {
    if (node->path() == path) return node.get();
  }
  return nullptr;
}

Result<FileRef> Machine::open(Node& node, const Caller& caller, int open_flags) {
  OpenCall call(*this, CallKind::kOpen, caller, nullptr);
  if (TraceHook* trace = hooks_.trace()) trace->begin(call);
  FaultDecision decision;
  if (FaultHook* fault = hooks_.fault()) decision = fault->before(call);
  const Result<FileRef> file =
      decision.fail ? Result<FileRef>(*decision.fail) : node.open(caller, open_flags);
  call.finish(file ? Outcome(0) : Outcome(file.error()));
  return file;
}

Result<void> Machine::begin(Call& call) {
  if (TraceHook* trace = hooks_.trace()) trace->begin(call);
  if (FaultHook* fault = hooks_.fault()) {
    if (const FaultDecision decision = fault->before(call); decision.fail) return *decision.fail;
  }
  return {};
}

Result<MmapTarget> Machine::map(Call& call, const MmapRequest& request) {
  TRY(begin(call));
  return call.file()->mmap(call, request);
}

Result<std::size_t> Machine::write(Call& call, std::span<const std::byte> bytes) {
  TRY(begin(call));
  return call.file()->write(call.caller(), bytes);
}

void Machine::on_sweep(std::function<bool()> sweep_and_tell_pending) {
  const std::lock_guard lock(sweep_mutex_);
  sweeps_.push_back(std::move(sweep_and_tell_pending));
}

void Machine::sweep() {
  std::vector<std::function<bool()>> sweeps;
  {
    const std::lock_guard lock(sweep_mutex_);
    sweeps = sweeps_;
  }
  bool pending = dmabufs_.sweep() > 0;
  for (const auto& sweep : sweeps) pending = sweep() || pending;
  if (pending) sweep_soon();
}

void Machine::sweep_soon() {
  {
    const std::lock_guard lock(sweep_mutex_);
    if (sweep_scheduled_) return;
    sweep_scheduled_ = true;
  }
  clock_->after(kSweepIntervalNs, [this] {
    {
      const std::lock_guard lock(sweep_mutex_);
      sweep_scheduled_ = false;
    }
    sweep();
  });
}

std::uint64_t Machine::random(std::string_view purpose, std::uint64_t index) const {
  std::uint64_t state = settings_.seed;
  for (const char letter : purpose) state = splitmix64(state ^ static_cast<unsigned char>(letter));
  return splitmix64(state ^ index);
}

}  // namespace understudy
