// FuseCall: an ioctl that came through the kernel and is answered with fuse_reply_ioctl.
//
// The kernel has copied the argument in as the command word encodes and will copy out likewise; what lies
// beyond (a driver that reads more than the word says) goes through the client's memory. Owner: whoever still
// has to answer. Units: bytes. Errors: as Call. Thread-safety: as Call. Mirrors: fs/fuse/ioctl.c:
// fuse_do_ioctl, restricted mode.
#pragma once

#include <vector>

#include "sim/core/call.h"
#include "sim/door/fuse/interrupts.h"

namespace understudy::door {

class FuseCall : public Call {
 public:
  FuseCall(SessionData& session, CallKind kind, Caller caller, std::shared_ptr<File> file,
           fuse_req_t request);
  // A call that every owner dropped unanswered would hang its client.
  ~FuseCall() override;

  // The bytes the kernel brought, and how many it will take back.
  void set_buffers(std::span<const std::byte> in, std::size_t out_bytes);
  // From here on a signal cancels the call. Before the handler runs.
  void watch_interrupts();

  Result<void> copy_in(std::span<std::byte> into) override;
  Result<void> copy_out(std::span<const std::byte> from) override;

 protected:
  void reply(int value) override;

 private:
  void send(int value);
  SessionData& session_;
  const fuse_req_t request_;
  Interrupts::Key interrupts_key_ = 0;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  std::size_t out_capacity_ = 0;
};

}  // namespace understudy::door
