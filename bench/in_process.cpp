// The same kind of calls without a door: what a driver's handler itself costs.
//
// Run:  build/release/bench/bench_in_process
#include <cstdlib>
#include <variant>

#include <benchmark/benchmark.h>

#include "sim/xdna/assemble.h"
#include "tests/support/test_client.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"

namespace understudy {
namespace {

class NpuMachine {
 public:
  NpuMachine() {
    auto profile = xdna::load_npu_profile("npu4", {PROFILE_DIRECTORY});
    if (!std::holds_alternative<xdna::NpuProfile>(profile)) std::exit(2);
    xdna::add_npus(machine_, {std::get<xdna::NpuProfile>(profile)});
    file = client.open("accel/accel0");
  }

 private:
  Machine machine_{Settings{}};

 public:
  test::TestClient client{machine_};
  FileRef file;
};

void flat_ioctl(benchmark::State& state) {
  NpuMachine npu;
  uapi::drm::drm_get_cap cap{uapi::drm::DRM_CAP_PRIME, 0};
  for (auto _ : state) benchmark::DoNotOptimize(npu.client.ioctl<uapi::drm::GetCap>(npu.file, cap));
}
BENCHMARK(flat_ioctl);

void create_and_close(benchmark::State& state) {
  NpuMachine npu;
  const auto create = [&npu] {
    uapi::amdxdna::amdxdna_drm_create_bo args{0, 0, 4096, uapi::amdxdna::AMDXDNA_BO_SHARE, 0};
    npu.client.ioctl<uapi::amdxdna::CreateBo>(npu.file, args);
    return args.handle;
  };
  for (std::int64_t i = 0; i < state.range(0); ++i) create();
  for (auto _ : state) {
    uapi::drm::drm_gem_close close{create(), 0};
    benchmark::DoNotOptimize(npu.client.ioctl<uapi::drm::GemClose>(npu.file, close));
  }
}
BENCHMARK(create_and_close)->ArgName("live")->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
