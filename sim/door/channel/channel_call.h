// ChannelCall: a call that came through the shim and is answered with kReply, with descriptors if any.
//
// Owner: its Connection until answered, and whoever answers later. Units, errors, thread-safety: as Call.
// Mirrors: the system call frame, as far as the shim can stand in for it.
#pragma once

#include "sim/core/call.h"
#include "sim/core/file.h"
#include "sim/door/channel/connection.h"

namespace understudy::door {

class ChannelCall : public Call {
 public:
  ChannelCall(Machine& machine, CallKind kind, Caller caller, FileRef file, ConnectionRef connection,
              std::uint64_t call_id)
      : Call(machine, kind, std::move(caller), std::move(file)),
        connection_(std::move(connection)),
        call_id_(call_id) {}
  // A call that every owner dropped unanswered would hang its client.
  ~ChannelCall() override;

  std::uint64_t call_id() const { return call_id_; }
  // mmap only: what the shim maps.
  MmapTarget target;

 protected:
  void reply(int value) override { connection_->answer(*this, value); }
  bool can_hand_fds() const override { return true; }

 private:
  const ConnectionRef connection_;
  const std::uint64_t call_id_;
};

}  // namespace understudy::door
