// EXEC_CMD and WAIT_CMD. Mirrors amdxdna_ctx.c: amdxdna_drm_submit_cmd_ioctl, amdxdna_cmd_wait; aie2_ctx.c:
// aie2_cmd_submit.
#include <algorithm>

#include "sim/core/vma.h"
#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

constexpr std::uint32_t kMaxArguments = 4095;

// BOs whose client mapping went away since are found at the next submit that lists them.
Result<void> check_still_mapped(const XdnaBo& bo) {
  if (!bo.user_pages()) return {};
  for (const UserPages::Range& range : bo.user_pages()->ranges) {
    TRY(check_user_range(*bo.user_pages()->client, range.address, range.size_bytes,
                         !bo.user_pages()->read_only));
  }
  return {};
}

// Queues the job now or when a slot is free, and answers the call then.
void submit_when_possible(const CallRef& call, const std::shared_ptr<HwContext>& context, const Job& job) {
  if (call->finished()) return;
  const Result<std::uint64_t> sequence = context->submit(job);
  if (!sequence && sequence.error() == Errno(EAGAIN)) {
    context->wait_for_slot([call, context, job] { submit_when_possible(call, context, job); });
    return;
  }
  if (!sequence) {
    call->finish(sequence.error());
    return;
  }
  reinterpret_cast<amdxdna_drm_exec_cmd*>(call->arguments.data())->seq = sequence.value();
  call->finish(0);
}

}  // namespace

Outcome XdnaFile::exec_cmd(Call& call, amdxdna_drm_exec_cmd& args) {
  if (args.ext != 0 || args.ext_flags != 0) return Errno(EINVAL);
  if (args.type != AMDXDNA_CMD_SUBMIT_EXEC_BUF) return Errno(EINVAL);
  if (args.arg_count > kMaxArguments || args.cmd_count != 1) return Errno(EINVAL);
  const auto argument_handles = TRY(call.memory().read_array<std::uint32_t>(args.args, args.arg_count));

  Job job;
  // With a single command the field holds the handle itself.
  const Result<XdnaBoRef> command = lookup_bo(static_cast<std::uint32_t>(args.cmd_handles));
  if (!command || command.value()->type() != BoType::kShare) return Errno(EINVAL);
  job.command = command.value();
  for (const std::uint32_t handle : argument_handles) job.arguments.push_back(TRY(lookup_bo(handle)));

  const std::shared_ptr<HwContext> context = this->context(args.hwctx);
  if (!context) return Errno(EINVAL);
  std::vector<XdnaBoRef> sorted = job.arguments;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return Errno(EALREADY);
  for (const XdnaBoRef& bo : job.arguments) TRY(check_still_mapped(*bo));

  call.on_cancel([call = call.weak_from_this()] {
    if (const CallRef waiting = call.lock()) waiting->finish(Errno(EINTR));
  });
  submit_when_possible(call.shared_from_this(), context, job);
  return Outcome::later();
}

Outcome XdnaFile::wait_cmd(Call& call, amdxdna_drm_wait_cmd& args) {
  if (npu().flavour() != DriverFlavour::kLegacy) return Errno(EOPNOTSUPP);
  const std::shared_ptr<HwContext> context = this->context(args.hwctx);
  if (!context) return Errno(EINVAL);
  const auto end_with = [weak = call.weak_from_this()](Errno error) {
    if (const CallRef waiting = weak.lock()) waiting->finish(error);
  };
  call.on_cancel([end_with] { end_with(Errno(EINTR)); });
  // Milliseconds; 0 waits for ever.
  if (args.timeout != 0) {
    call.machine().clock().after(std::uint64_t{args.timeout} * 1'000'000, [end_with] { end_with(Errno(ETIME)); });
  }
  context->when_done(args.seq, [waiting = call.shared_from_this()] { waiting->finish(0); });
  return Outcome::later();
}

}  // namespace understudy::xdna
