// Copies and fills: by a GPU's copy engine where a GPU takes part, by the CPU otherwise.
//
// Asynchronous work starts when its dependencies are zero and ends by subtracting one from its completion
// signal, whoever does it. Engines are made when first needed. Thread-safe.
#pragma once

#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/core/allocation_table.h"
#include "runtime/core/async_events.h"
#include "runtime/core/signal.h"
#include "runtime/core/vmem_table.h"
#include "runtime/driver/queues.h"

namespace hsa_rt {

class CopyService {
 public:
  CopyService(SignalPool& signals, AsyncEvents& events, AllocationTable& allocations, const VmemTable& vmem,
              AgentDirectory& agents)
      : signals_(signals), events_(events), allocations_(allocations), vmem_(vmem), agents_(agents) {}

  // `agent` does the work if it is a GPU. As everywhere in HSA, signals must not be destroyed before the work
  // is done.
  Status<void> submit(Agent& agent, std::vector<CopySegment> segments, std::optional<uint32_t> fill_value,
                      std::vector<std::shared_ptr<Signal>> dependencies, std::shared_ptr<Signal> completion);

  // Does not return before the bytes are there. Finds out itself where they are.
  Status<void> copy(void* destination, const void* source, uint64_t size_bytes);
  Status<void> fill(void* destination, uint32_t value, uint64_t dword_count);

  void enable_timestamps(bool enabled) { timestamps_ = enabled; }

 private:
  enum class Direction : uint8_t { kToDevice, kFromDevice };
  struct EngineKey {
    const Agent* agent;
    Direction direction;
    auto operator<=>(const EngineKey&) const = default;
  };

  Status<CopyEngine*> engine(Agent& agent, Direction direction);
  Status<void> submit_to_engine(Agent& agent, std::span<const CopySegment> segments,
                                std::optional<uint32_t> fill_value,
                                std::span<const std::shared_ptr<Signal>> dependencies,
                                const std::shared_ptr<Signal>& completion);
  Status<void> run_and_wait(Agent& agent, const CopySegment& segment, std::optional<uint32_t> fill_value);

  // Whether [address, address + size) is memory the runtime knows, and how it can be reached.
  struct Place {
    bool known = false;
    bool cpu = true;
    const Agent* owner = nullptr;
    std::vector<Agent*> gpus;  // those that can reach it, its owner first

    bool reachable_by(const Agent* gpu) const;
  };
  Place place_of(const void* address, uint64_t size_bytes);
  Status<void> copy_by_way_of_host(const CopySegment& segment, Agent& from, Agent& to);

  SignalPool& signals_;
  AsyncEvents& events_;
  AllocationTable& allocations_;
  const VmemTable& vmem_;
  AgentDirectory& agents_;
  std::atomic<bool> timestamps_{false};
  std::mutex lock_;
  std::map<EngineKey, std::unique_ptr<CopyEngine>> engines_;
};

}  // namespace hsa_rt
