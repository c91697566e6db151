#include "sim/core/call.h"

#include "sim/core/hooks.h"
#include "sim/core/machine.h"

namespace understudy {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

constexpr std::string_view kKindNames[] = {"open", "ioctl", "mmap", "read", "write", "release"};

}  // namespace

Call::Call(Machine& machine, CallKind kind, Caller caller, std::shared_ptr<File> file)
    : machine_(machine),
      kind_(kind),
      caller_(std::move(caller)),
      file_(std::move(file)),
      serial_(next_serial()),
      begin_ns_(machine.clock().now_ns()) {}

Call::~Call() = default;

std::string_view Call::name() const {
  return descriptor ? descriptor->name : kKindNames[static_cast<int>(kind_)];
}

Result<void> Call::copy_in(std::span<std::byte> into) {
  return memory().read(argument, into);
}

Result<void> Call::copy_out(std::span<const std::byte> from) {
  return memory().write(argument, from);
}

Result<void> Call::hand_fd(UniqueFd fd, std::uint32_t argument_offset, bool close_on_exec) {
  if (!can_hand_fds()) return Errno(EOPNOTSUPP);
  handed_fds_.push_back(HandedFd{std::move(fd), argument_offset, close_on_exec});
  return {};
}

bool Call::finish(Outcome outcome) {
  if (finished_.exchange(true, std::memory_order_acq_rel)) return false;
  {
    const std::lock_guard lock(cancel_mutex_);
    wake_ = nullptr;
  }
  if (before_reply_) outcome = std::exchange(before_reply_, nullptr)(outcome);
  if (outcome.value() < 0) handed_fds_.clear();
  if (TraceHook* trace = machine_.hooks().trace()) trace->end(*this, outcome.value());
  reply(outcome.value());
  if (FaultHook* fault = machine_.hooks().fault()) fault->replied(*this);
  return true;
}

void Call::on_cancel(std::function<void()> wake) {
  {
    const std::lock_guard lock(cancel_mutex_);
    if (finished()) return;
    if (!cancelled_) {
      wake_ = std::move(wake);
      return;
    }
  }
  wake();
}

void Call::cancel() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(cancel_mutex_);
    if (cancelled_) return;
    cancelled_ = true;
    wake = std::exchange(wake_, nullptr);
  }
  if (wake) wake();
}

}  // namespace understudy
