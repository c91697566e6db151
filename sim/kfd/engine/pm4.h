// Pm4: interprets the PM4 packets of compute queues and of the indirect buffers that AQL's vendor packet
// runs.
//
// Owner: a hardware queue, or one run of an indirect buffer. Units: as the packets'. Errors and
// thread-safety: see CommandProcessor; kDispatch for packets that start waves. Mirrors: soc15d.h/nvd.h
// PACKET3 definitions and ROCR's amd_gpu_pm4.h, for the layouts.
//
// Registers do not exist here: writes to them are swallowed, waits for them are over at once.
#pragma once

#include "sim/kfd/engine/command_processor.h"
#include "sim/kfd/engine/signal_sink.h"

namespace understudy::kfd::engine {

class Pm4 : public CommandProcessor {
 public:
  Pm4(AddressSpace& memory, SignalSink& signals) : CommandProcessor(memory), signals_(signals) {}

 protected:
  std::optional<std::uint64_t> length_dw(const Packet& packet) const override;
  Step execute(const Packet& packet, Budget& budget) override;

 private:
  Step write_data(const Packet& packet);
  Step release_mem(const Packet& packet);
  Step wait_reg_mem(const Packet& packet);
  Step copy_data(const Packet& packet);
  Step dma_data(const Packet& packet, Budget& budget);
  Step atomic_mem(const Packet& packet);

  SignalSink& signals_;
};

}  // namespace understudy::kfd::engine
