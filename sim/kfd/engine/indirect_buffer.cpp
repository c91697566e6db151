#include "sim/kfd/engine/indirect_buffer.h"

#include "sim/kfd/engine/pm4.h"
#include "sim/kfd/engine/sdma.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd::engine {

// Interrupts of a submission are its fence, which is the submitter's business.
class IndirectBuffer::Clock : public SignalSink {
 public:
  explicit Clock(const Gpu& gpu) : gpu_(gpu) {}
  void interrupt(std::uint32_t) override {}
  std::uint64_t clock_counter() const override { return gpu_.clock_counter(); }

 private:
  const Gpu& gpu_;
};

IndirectBuffer::IndirectBuffer(const Gpu& gpu, std::shared_ptr<GpuVm> vm, IndirectBufferKind kind,
                               std::uint64_t address, std::uint32_t size_dw)
    : memory_(gpu, std::move(vm), nullptr, nullptr, /*xnack_enabled=*/false),
      size_dw_(size_dw),
      clock_(std::make_unique<Clock>(gpu)),
      processor_(kind == IndirectBufferKind::kSdma ? std::unique_ptr<CommandProcessor>(std::make_unique<Sdma>(
                                                         memory_, *clock_, SdmaDialect::of(gpu.profile())))
                                                   : std::make_unique<Pm4>(memory_, *clock_)) {
  processor_->set_indirect_buffer(address, size_dw);
}

IndirectBuffer::~IndirectBuffer() = default;

RunStatus IndirectBuffer::run(Budget& budget) {
  return processor_->run(size_dw_, budget);
}

}  // namespace understudy::kfd::engine
