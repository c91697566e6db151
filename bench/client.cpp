// What a call costs a client, through whichever door it came: a flat ioctl, one that reads and writes client
// memory behind pointers, a buffer's whole life, and a system call that no door sees for comparison.
//
// Run:  understudy run --door fuse --gpu gfx90a -- build/release/bench/bench_client
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include <benchmark/benchmark.h>

#include "uapi/amdgpu.h"
#include "uapi/drm.h"
#include "uapi/kfd.h"

namespace {

int open_node(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) std::exit(2);
  return fd;
}

void raw_system_call(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(::syscall(SYS_getppid));
}
BENCHMARK(raw_system_call);

void flat_ioctl(benchmark::State& state) {
  const int kfd = open_node("/dev/kfd");
  uapi::kfd::kfd_ioctl_get_version_args version{};
  for (auto _ : state) {
    if (::ioctl(kfd, uapi::kfd::GetVersion::kCmd, &version) != 0) state.SkipWithError("GET_VERSION");
  }
  ::close(kfd);
}
BENCHMARK(flat_ioctl);

void deep_ioctl(benchmark::State& state) {
  const int render = open_node("/dev/dri/renderD128");
  std::uint32_t working = 0;
  uapi::amdgpu::drm_amdgpu_info info{};
  info.return_pointer = reinterpret_cast<std::uint64_t>(&working);
  info.return_size = sizeof working;
  info.query = uapi::amdgpu::AMDGPU_INFO_ACCEL_WORKING;
  for (auto _ : state) {
    if (::ioctl(render, uapi::amdgpu::Info::kCmd, &info) != 0) state.SkipWithError("INFO");
  }
  ::close(render);
}
BENCHMARK(deep_ioctl);

void create_and_close(benchmark::State& state) {
  const int render = open_node("/dev/dri/renderD128");
  const auto create = [render] {
    uapi::amdgpu::drm_amdgpu_gem_create args{};
    args.in.bo_size = 4096;
    args.in.domains = uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT;
    return ::ioctl(render, uapi::amdgpu::GemCreate::kCmd, &args) == 0 ? args.out.handle : 0u;
  };
  for (std::int64_t i = 0; i < state.range(0); ++i) create();
  for (auto _ : state) {
    uapi::drm::drm_gem_close close{create(), 0};
    if (::ioctl(render, uapi::drm::GemClose::kCmd, &close) != 0) state.SkipWithError("GEM_CLOSE");
  }
  ::close(render);
}
BENCHMARK(create_and_close)->ArgName("live")->Arg(1'000)->Arg(10'000);

}  // namespace

BENCHMARK_MAIN();
