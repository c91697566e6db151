#include "sim/door/fuse/fuse_call.h"

#include <algorithm>

namespace understudy::door {

FuseCall::FuseCall(SessionData& session, CallKind kind, Caller caller, std::shared_ptr<File> file,
                   fuse_req_t request)
    : Call(session.machine, kind, std::move(caller), std::move(file)), session_(session), request_(request) {}

FuseCall::~FuseCall() {
  if (!finished()) send(-EIO);
}

void FuseCall::set_buffers(std::span<const std::byte> in, std::size_t out_bytes) {
  in_.assign(in.begin(), in.end());
  out_capacity_ = out_bytes;
}

void FuseCall::watch_interrupts() {
  interrupts_key_ = session_.interrupts.watch(request_, [weak = std::weak_ptr<Call>(shared_from_this())] {
    if (const CallRef call = weak.lock()) call->cancel();
  });
}

Result<void> FuseCall::copy_in(std::span<std::byte> into) {
  if (into.size() > in_.size()) return Call::copy_in(into);
  std::copy_n(in_.begin(), into.size(), into.begin());
  return {};
}

Result<void> FuseCall::copy_out(std::span<const std::byte> from) {
  if (from.size() > out_capacity_) return Call::copy_out(from);
  out_.assign(from.begin(), from.end());
  return {};
}

void FuseCall::reply(int value) {
  send(value);
}

void FuseCall::send(int value) {
  session_.interrupts.forget(interrupts_key_);
  switch (kind()) {
    case CallKind::kIoctl:
      ::fuse_reply_ioctl(request_, value, out_.data(), out_.size());
      return;
    case CallKind::kWrite:
      if (value >= 0) {
        ::fuse_reply_write(request_, static_cast<std::size_t>(value));
        return;
      }
      break;
    default:
      break;
  }
  ::fuse_reply_err(request_, value < 0 ? -value : 0);
}

}  // namespace understudy::door
