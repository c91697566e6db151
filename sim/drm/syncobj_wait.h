// SyncobjWait: one SYNCOBJ_WAIT or TIMELINE_WAIT in flight: waits for fences to appear and to signal.
//
// Owner: itself, by the callbacks it registers, until it has answered its call. Units: ns of CLOCK_MONOTONIC.
// Errors: EINVAL nothing submitted, ETIME, EINTR. Thread-safety: locks itself; answers without locks.
// Mirrors: drm_syncobj.c: drm_syncobj_array_wait_timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/core/call.h"
#include "sim/drm/call_wait.h"
#include "sim/drm/syncobj.h"

namespace understudy::drm {

class SyncobjWait : public std::enable_shared_from_this<SyncobjWait> {
 public:
  using Ended = std::function<Outcome(std::uint32_t first)>;
  struct Entry {
    SyncobjRef syncobj;
    std::uint64_t point = 0;
  };
  // `ended` gets the index of the first signalled entry and says how the ioctl ends; on success only.
  static Outcome start(Call& call, std::vector<Entry> entries, std::uint32_t flags, std::int64_t timeout_ns,
                       Ended ended);

 private:
  SyncobjWait(Call& call, std::vector<Entry> entries, std::uint32_t flags, Ended ended);
  bool wants(std::uint32_t flag) const { return (flags_ & flag) != 0; }
  void watch(std::uint32_t index);
  void entry_done(std::uint32_t index);

  const std::shared_ptr<CallWait> wait_;
  const std::vector<Entry> entries_;
  const std::uint32_t flags_;
  const Ended ended_;
  std::mutex mutex_;
  std::size_t done_count_ = 0;          // guarded by mutex_
  std::optional<std::uint32_t> first_;  // guarded by mutex_
};

}  // namespace understudy::drm
