// Hooks: the two places every call passes through: the fault plan (before the handler) and the trace (both
// ends).
//
// Owner: Machine; hooks are installed before clients arrive or swapped live, and outlive the calls they saw.
// Errors: none. Thread-safety: hook methods are called from many threads at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/core/call.h"

namespace understudy {

// What a fault plan says about a call before its handler runs.
struct FaultDecision {
  // Answer with this errno instead of running the handler.
  std::optional<Errno> fail;
  // Set: keeps the call back; it must run `resume` exactly once, from any thread, when the call may go on.
  std::function<void(std::function<void()> resume)> hold;
};

// Places inside drivers and engines that hardware can lose, repeat or never reach.
enum class FaultPoint : std::uint8_t {
  kInterrupt,       // an event or fence is about to be signalled to user space
  kCompletion,      // an engine is about to write a completion (signal, fence value, command state)
  kQueueProgress,   // an engine is about to take the next packet
  kFirmware,        // NPU firmware is about to answer
  kVirtioResponse,  // the virtio device is about to answer; corrupt = malformed bytes
};

enum class PointDecision : std::uint8_t { kPass, kDrop, kDuplicate, kStick, kCorrupt };

class FaultHook {
 public:
  virtual ~FaultHook() = default;
  virtual FaultDecision before(Call& call) = 0;
  // After the handler, before the copy-out of the first *copy_out_bytes of call.arguments; may change all of
  // them.
  virtual Outcome after(Call& call, Outcome outcome, std::size_t* copy_out_bytes) = 0;
  // The answer is on its way to the client.
  virtual void replied(const Call& call) = 0;
  // `node` is the label of the device's node; `client` may be null.
  virtual PointDecision at(FaultPoint point, std::string_view node, const Client* client) = 0;
};

class TraceHook {
 public:
  virtual ~TraceHook() = default;
  virtual void begin(const Call& call) = 0;
  // `value`: >= 0 or -errno, as sent.
  virtual void end(const Call& call, int value) = 0;
};

class Hooks {
 public:
  void install(std::shared_ptr<FaultHook> fault);
  void install(std::shared_ptr<TraceHook> trace);

  PointDecision at(FaultPoint point, std::string_view node, const Client* client) const {
    FaultHook* hook = fault();
    return hook ? hook->at(point, node, client) : PointDecision::kPass;
  }
  FaultHook* fault() const { return fault_.load(std::memory_order_acquire); }
  TraceHook* trace() const { return trace_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
  std::atomic<FaultHook*> fault_{nullptr};
  std::atomic<TraceHook*> trace_{nullptr};
};

}  // namespace understudy
