// The runtime of a process: everything hsa_init makes and the last hsa_shut_down takes down again.
//
// A forked child inherits none of it: its first call finds no runtime, and hsa_init makes a new one (devices
// refuse the parent's descriptors there). Thread-safe; as HSA demands, no call may be running when the last
// reference is given up.
#pragma once

#include <hsa/hsa.h>

#include <memory>
#include <optional>
#include <vector>

#include "runtime/core/agent.h"
#include "runtime/core/allocation_table.h"
#include "runtime/core/async_events.h"
#include "runtime/core/copy_service.h"
#include "runtime/core/ipc.h"
#include "runtime/core/queue.h"
#include "runtime/core/signal.h"
#include "runtime/core/vmem_table.h"

namespace hsa_rt {

class Runtime {
 public:
  // hsa_init and hsa_shut_down.
  static Status<void> acquire();
  static Status<void> release();
  // Null before hsa_init and after the last hsa_shut_down.
  static Runtime* current();

  static Status<std::unique_ptr<Runtime>> create(std::vector<std::shared_ptr<Driver>> drivers);

  std::span<const std::shared_ptr<Driver>> drivers() const { return drivers_; }
  AgentDirectory& agents() { return agents_; }
  VmemTable& vmem() { return vmem_; }
  AllocationTable& allocations() { return allocations_; }
  SignalPool& signals() { return signals_; }
  AsyncEvents& events() { return events_; }
  CopyService& copies() { return copies_; }
  QueueTable& queues() { return queues_; }
  IpcServer& ipc() { return ipc_; }
  // The driver that knows about shared virtual memory, if one does.
  SvmRanges* svm() const;
  // Whether any driver can allocate memory that others can import.
  bool supports_dmabuf() const;

  explicit Runtime(std::vector<std::shared_ptr<Driver>> drivers);

 private:
  std::vector<AccessRequest> cpu_access();
  std::vector<AccessRequest> shared_access();
  Device& shared_backing();
  EventSource* event_source() const;

  // Destroyed from the last to the first: whoever uses something stands after it.
  const std::vector<std::shared_ptr<Driver>> drivers_;
  AgentDirectory agents_;
  VmemTable vmem_;
  AllocationTable allocations_;
  SignalPool signals_;
  AsyncEvents events_;
  CopyService copies_;
  QueueTable queues_;
  IpcServer ipc_;
};

}  // namespace hsa_rt
