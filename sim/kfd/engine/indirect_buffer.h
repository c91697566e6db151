// Runs an indirect buffer outside any user queue: what the render node's command submission asks for.
//
// Owner: the caller, for one submission. Units: dwords in names. Errors: how it ended, and the fault.
// Thread-safety: none. Mirrors: amdgpu_ib.c: amdgpu_ib_schedule, as far as SDMA and compute rings go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/kfd/engine/command_processor.h"

namespace understudy::kfd::engine {

enum class IndirectBufferKind : std::uint8_t { kSdma, kPm4 };

class IndirectBuffer {
 public:
  IndirectBuffer(const Gpu& gpu, std::shared_ptr<GpuVm> vm, IndirectBufferKind kind, std::uint64_t address,
                 std::uint32_t size_dw);
  ~IndirectBuffer();

  // Continues: kWaiting and kYield mean call again, kIdle that it is done, anything else that it failed.
  RunStatus run(Budget& budget);
  // Set after kFault.
  const std::optional<GpuFault>& fault() const { return memory_.fault(); }

 private:
  class Clock;
  AddressSpace memory_;
  const std::uint32_t size_dw_;
  const std::unique_ptr<Clock> clock_;
  const std::unique_ptr<CommandProcessor> processor_;
};

}  // namespace understudy::kfd::engine
