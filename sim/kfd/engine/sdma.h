// Sdma: interprets SDMA packets of hardware generations 4 to 7.
//
// Owner: a hardware queue, or one run of an indirect buffer. Units: as the packets'. Errors and
// thread-safety: see CommandProcessor. Mirrors: sdma_*_pkt_open.h of the amdgpu driver and ROCR's
// sdma_registers.h, for the layouts.
#pragma once

#include "sim/kfd/engine/command_processor.h"
#include "sim/kfd/engine/signal_sink.h"

namespace understudy::kfd {
struct GpuProfile;
}

namespace understudy::kfd::engine {

// Where the generations' packets differ.
struct SdmaDialect {
  std::uint32_t count_mask = 0x3fffff;  // of linear copies and fills
  bool wide_windows = false;            // sub-window fields of generation 7
  static SdmaDialect of(const GpuProfile& profile);
};

class Sdma : public CommandProcessor {
 public:
  Sdma(AddressSpace& memory, SignalSink& signals, SdmaDialect dialect)
      : CommandProcessor(memory), signals_(signals), dialect_(dialect) {}

 protected:
  std::optional<std::uint64_t> length_dw(const Packet& packet) const override;
  Step execute(const Packet& packet, Budget& budget) override;

 private:
  Step copy_linear(const Packet& packet, Budget& budget);
  Step copy_window(const Packet& packet, Budget& budget);
  Step constant_fill(const Packet& packet, Budget& budget);
  Step poll(const Packet& packet);
  Step atomic(const Packet& packet);
  Step timestamp(const Packet& packet);
  Step conditional(const Packet& packet);

  SignalSink& signals_;
  const SdmaDialect dialect_;
};

}  // namespace understudy::kfd::engine
