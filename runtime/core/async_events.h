// The thread that calls handlers: when a signal meets a condition, when somebody asked for a function to be
// run, and when a driver reports a memory fault or hardware exception.
//
// Handlers run one after another, without locks held; they may register more handlers, and a handler that
// returns true stays. A memory fault nobody handles ends the program, as the device cannot go on and silence
// would hide it. Thread-safe.
#pragma once

#include <hsa/hsa_ext_amd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/core/agent.h"
#include "runtime/core/signal.h"
#include "runtime/core/signal_wait.h"

namespace hsa_rt {

class AsyncEvents {
 public:
  AsyncEvents(SignalPool& signals, AgentDirectory& agents) : signals_(signals), agents_(agents) {}
  ~AsyncEvents();

  // Starts the thread and, where the driver has them, watches its fault events.
  Status<void> start();

  using Handler = std::function<bool(hsa_signal_value_t)>;
  void add_handler(std::shared_ptr<Signal> signal, hsa_signal_condition_t condition,
                   hsa_signal_value_t reference, Handler handler);
  void run(std::function<void()> function);
  // Once all of the signals have been zero, each at some time.
  void run_after(std::vector<std::shared_ptr<Signal>> dependencies, std::function<void()> function);

  void add_fault_callback(hsa_amd_system_event_callback_t callback, void* data);

 private:
  struct Registration {
    std::shared_ptr<Signal> signal;  // null: due at once
    SignalCondition condition;
    Handler handler;
  };

  void loop();
  bool call_due_handlers(std::vector<Registration>& registrations);
  void take_new(std::vector<Registration>& registrations);
  void report(const MemoryFault& fault);
  void report(const HardwareException& exception);
  bool call_fault_callbacks(const hsa_amd_event_t& event);

  SignalPool& signals_;
  AgentDirectory& agents_;
  std::shared_ptr<Signal> wake_;
  std::vector<EventWait> driver_events_;
  std::thread thread_;

  std::mutex lock_;
  std::vector<Registration> added_;
  struct FaultCallback {
    hsa_amd_system_event_callback_t function;
    void* data;
  };
  std::vector<FaultCallback> fault_callbacks_;
  bool stopping_ = false;
};

}  // namespace hsa_rt
