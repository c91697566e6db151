#include "sim/core/ioctl_table.h"

#include <algorithm>

#include "sim/core/hooks.h"
#include "sim/core/machine.h"

namespace understudy {
namespace {

// The kernel's last step: bytes go back even when the handler failed, and a fault there wins.
Outcome copy_back(Call& call, std::size_t bytes, Outcome outcome) {
  if (FaultHook* fault = call.machine().hooks().fault()) outcome = fault->after(call, outcome, &bytes);
  if (bytes == 0) return outcome;
  if (!call.copy_out(std::span(call.arguments).first(bytes))) return Errno(EFAULT);
  return outcome;
}

void invoke_row(const CallRef& call, const IoctlRow& row) {
  const Outcome outcome = row.invoke(*call->file(), *call);
  if (!outcome.is_later()) call->finish(outcome);
}

}  // namespace

void run_row(const CallRef& call, const IoctlRow& row, const CopyPlan& plan) {
  Machine& machine = call->machine();
  call->descriptor = &row.descriptor();
  call->arguments.assign(plan.buffer_bytes, std::byte{0});
  if (!call->copy_in(std::span(call->arguments).first(plan.copy_in_bytes))) {
    refuse(call, Errno(EFAULT));
    return;
  }
  if (TraceHook* trace = machine.hooks().trace()) trace->begin(*call);
  call->before_reply([raw = call.get(), bytes = plan.copy_out_bytes](Outcome outcome) {
    return copy_back(*raw, bytes, outcome);
  });
  if (plan.refusal_errno != 0) {
    call->finish(Errno(plan.refusal_errno));
    return;
  }
  if (row.invoke == nullptr) {
    machine.ledger().count_unsupported(*call);
    call->finish(Errno(row.unsupported_errno));
    return;
  }
  if (FaultHook* fault = machine.hooks().fault()) {
    const FaultDecision decision = fault->before(*call);
    if (decision.fail) {
      call->finish(*decision.fail);
      return;
    }
    if (decision.hold) {
      decision.hold([call, &row] { invoke_row(call, row); });
      return;
    }
  }
  invoke_row(call, row);
}

void refuse(const CallRef& call, Errno error) {
  if (TraceHook* trace = call->machine().hooks().trace()) trace->begin(*call);
  if (call->descriptor == nullptr) call->machine().ledger().count_unsupported(*call);
  call->finish(error);
}

}  // namespace understudy
