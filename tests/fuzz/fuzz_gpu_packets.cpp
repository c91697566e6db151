// The packet processors alone: the input is an indirect buffer of SDMA or PM4, or a ring of AQL packets, in
// memory that the packets themselves can overwrite.
#include <algorithm>
#include <cstring>
#include <memory>

#include "sim/core/machine.h"
#include "sim/kfd/engine/aql.h"
#include "sim/kfd/engine/pm4.h"
#include "sim/kfd/engine/sdma.h"
#include "sim/kfd/gpu.h"
#include "tests/fuzz/input.h"

namespace understudy::kfd::engine {
namespace {

constexpr std::uint64_t kCode = 0x10000, kData = 0x20000, kReadOnly = 0x30000;
constexpr std::uint64_t kBytes = 0x10000;
constexpr std::uint64_t kBudgetBytes = 8 << 20;

class Host : public QueueHost {
 public:
  void interrupt(std::uint32_t) override {}
  std::uint64_t clock_counter() const override { return 42; }
  DispatchResult dispatch(std::span<const std::byte, 64>) override { return DispatchResult::kDone; }
  bool profiling_enabled() override { return true; }
  PointDecision at(FaultPoint) override { return PointDecision::kPass; }
};

// One machine for all inputs: the processors keep no state in it.
struct Bench {
  Machine machine{Settings{}, std::make_unique<ManualClock>()};
  std::shared_ptr<Gpu> gpus[4];
  Bench() {
    for (unsigned index = 0; index < std::size(gpus); ++index) {
      GpuProfile profile;
      profile.properties = {{"gfx_target_version", 90000u + index * 10000}};
      profile.sdma_major = 4 + index;
      profile.vram_bytes = 64 << 20;
      gpus[index] = std::make_shared<Gpu>(machine, profile, GpuPlacement{.index = index},
                                          std::make_shared<SystemMemory>(), 0);
    }
  }
};

void map(GpuVm& vm, Gpu& gpu, std::uint64_t address, bool writable, std::span<const std::byte> content) {
  BoSpec spec;
  spec.size_bytes = kBytes;
  const BoRef bo = AmdgpuBo::create(gpu, nullptr, spec).value();
  const auto bytes = bo->buffer()->bytes().value();
  std::copy_n(content.begin(), std::min<std::size_t>(content.size(), kBytes), bytes.begin());
  GpuMapping mapping;
  mapping.start = address;
  mapping.size_bytes = kBytes;
  mapping.bo = bo;
  mapping.permissions.writable = writable;
  (void)vm.map(std::move(mapping));
}

}  // namespace
}  // namespace understudy::kfd::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace understudy::kfd;
  using namespace understudy::kfd::engine;
  static Bench bench;
  understudy::fuzz::Input input(data, size);
  Gpu& gpu = *bench.gpus[input.pick(std::size(bench.gpus))];
  const std::size_t kind = input.pick(3);
  const auto code = input.rest().first(std::min<std::size_t>(input.rest().size(), kBytes));
  const auto vm = std::make_shared<GpuVm>();
  map(*vm, gpu, kCode, true, code);
  map(*vm, gpu, kData, true, code);
  map(*vm, gpu, kReadOnly, false, code);
  AddressSpace memory(gpu, vm, nullptr, nullptr, false);
  Host host;
  Budget budget(kBudgetBytes);
  if (kind == 2) {
    const std::uint64_t packets = code.size() / AqlPacket::kBytes;
    (void)memory.store(kData + 8, packets);
    Aql aql(memory, host);
    aql.set_ring({kCode, 64, kData, kData + 8}, 0);
    (void)aql.run(budget);
    return 0;
  }
  std::unique_ptr<CommandProcessor> processor;
  if (kind == 0) processor = std::make_unique<Sdma>(memory, host, SdmaDialect::of(gpu.profile()));
  if (kind == 1) processor = std::make_unique<Pm4>(memory, host);
  processor->set_indirect_buffer(kCode, code.size() / 4);
  (void)processor->run(code.size() / 4, budget);
  return 0;
}
