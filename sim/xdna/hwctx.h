// HwContext: a hardware context: columns, compute units, and the in-order queue of commands.
//
// Owner: its XdnaFile and the device's table; jobs in flight keep it. Units: ns, columns. Errors: submit()
// returns the driver's errno. Thread-safety: locks itself; jobs run on the machine's reactor threads, one at
// a time per context. Mirrors: amdxdna_ctx.h: struct amdxdna_hwctx; aie2_ctx.c, aie2_tdr.c.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/ledger.h"
#include "sim/drm/fence.h"
#include "sim/drm/syncobj.h"
#include "sim/xdna/bo.h"
#include "sim/xdna/ert.h"
#include "sim/xdna/npu.h"
#include "sim/xdna/transaction.h"

namespace understudy::xdna {

class NpuMemory;
class XdnaFile;

struct ComputeUnit {
  XdnaBoRef pdi;
  std::uint8_t function = 0;
};

struct ContextCounters {
  std::uint64_t submissions = 0;
  std::uint64_t completions = 0;
  std::uint64_t errors = 0;
  std::uint64_t suspensions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t migrations = 0;
};

// One accepted command, or a driver-internal one (no command BO) that only takes a sequence number.
struct Job {
  XdnaBoRef command;                 // null: driver-internal
  std::vector<XdnaBoRef> arguments;  // pinned and fenced for the duration
  std::uint64_t sequence = 0;
  std::shared_ptr<drm::Fence> fence;
};

class HwContext : public std::enable_shared_from_this<HwContext> {
 public:
  static constexpr unsigned kMaxComputeUnits = 32;
  static constexpr unsigned kJobsInFlight = 4;
  static constexpr unsigned kInternalBuffers = 4;

  struct Columns {
    unsigned first = 0;
    unsigned count = 0;  // asked for
  };
  HwContext(XdnaFile& file, const uapi::amdxdna::amdxdna_qos_info& qos, Columns columns,
            std::vector<XdnaBoRef> internal_buffers);

  std::uint32_t id() const { return id_; }
  void set_id(std::uint32_t id) { id_ = id; }
  const ClientRef& owner() const { return owner_; }
  const uapi::amdxdna::amdxdna_qos_info& qos() const { return qos_; }
  unsigned first_column() const;
  // What GET_INFO reports: the whole array on temporal-only firmware.
  unsigned occupied_columns() const;
  std::uint64_t heap_used_bytes() const;
  ContextCounters counters() const;
  HealthRecord last_health() const;
  bool busy() const;

  const std::shared_ptr<drm::Syncobj>& completion() const { return completion_; }

  // Opens the ledger's line.
  void account(const Call& call);
  bool configured() const;
  // CONFIG_CU; EINVAL when already configured.
  Result<void> configure(std::vector<ComputeUnit> units);

  // Takes a sequence number and a timeline point and queues the job. EAGAIN when kJobsInFlight are queued:
  // wait_for_slot tells when to try again.
  Result<std::uint64_t> submit(Job job);
  void wait_for_slot(std::function<void()> retry);
  // Runs `done` once the job with this sequence number has ended (at once when it has).
  void when_done(std::uint64_t sequence, std::function<void()> done);
  // The device was reset: everything not finished ends ABORT; the context goes on.
  void abort_in_flight();
  // Everything not finished ends ABORT, fences signalled. Further submits fail with EINVAL.
  void destroy();

 private:
  struct Execution;  // one command (or chain) as far as it came
  static const Execution kAborted;
  void abort(bool for_good);
  void run_next();
  Execution execute(const Job& job);
  // Is it still the one that runs? Not after the context or the device was taken down.
  bool is_front(const Job& job) const;
  Verdict run_packet(const ErtPacket& packet, const NpuMemory& memory, Watchdog& watchdog,
                     HealthRecord* health) const;
  // Ends the front job, lets its waiters go and starts the next.
  void end_front(const std::shared_ptr<Job>& job, const Execution& execution);
  static void write_outcome(const Job& job, const Execution& execution);

  Npu& npu_;
  const std::shared_ptr<DeviceHeap> heap_;
  const std::weak_ptr<File> file_;
  const ClientRef owner_;
  const uapi::amdxdna::amdxdna_qos_info qos_;
  const Columns columns_;
  std::uint32_t id_ = 0;
  const std::vector<XdnaBoRef> internal_buffers_;
  const std::shared_ptr<drm::Syncobj> completion_;
  LedgerEntry entry_;

  mutable std::mutex mutex_;
  std::vector<ComputeUnit> units_;                                    // guarded by mutex_
  std::deque<std::shared_ptr<Job>> queue_;                            // guarded by mutex_; the front runs
  bool running_ = false;                                              // guarded by mutex_
  bool destroyed_ = false;                                            // guarded by mutex_
  std::uint64_t next_sequence_ = 0;                                   // guarded by mutex_
  std::uint64_t first_unfinished_ = 0;                                // guarded by mutex_
  std::vector<std::function<void()>> slot_waiters_;                   // guarded by mutex_
  std::multimap<std::uint64_t, std::function<void()>> done_waiters_;  // guarded by mutex_
  ContextCounters counters_;                                          // guarded by mutex_
  HealthRecord last_health_;                                          // guarded by mutex_
};

}  // namespace understudy::xdna
