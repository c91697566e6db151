#include "tests/fuzz/machines.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "sim/kfd/assemble.h"
#include "sim/virtio_gpu/assemble.h"
#include "sim/xdna/assemble.h"

namespace understudy::fuzz {
namespace {

constexpr std::uint64_t kMemoryBytes = 64 << 20;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "fuzz: %s\n", why.c_str());
  std::abort();
}

Settings small_settings() {
  Settings settings;
  settings.limits.vram_bytes = kMemoryBytes;
  settings.limits.system_bytes = kMemoryBytes;
  return settings;
}

FuzzMachine make(Settings settings) {
  auto clock = std::make_unique<ManualClock>();
  FuzzMachine made;
  made.clock = clock.get();
  made.machine = std::make_unique<Machine>(std::move(settings), std::move(clock));
  return made;
}

const kfd::GpuProfile& gpu_profile(const std::string& name) {
  static std::map<std::string, kfd::GpuProfile> profiles;
  const auto known = profiles.find(name);
  if (known != profiles.end()) return known->second;
  std::string why;
  const auto loaded = kfd::load_gpu_profile(name, {PROFILE_DIRECTORY}, &why);
  if (!loaded) give_up(why);
  return profiles.emplace(name, *loaded).first->second;
}

void add_gpus(Machine& machine, const std::vector<std::string>& names) {
  kfd::GpuMachineRequest request;
  for (const std::string& name : names) request.gpus.push_back(gpu_profile(name));
  request.cpu_cores = 2;
  request.memory_bytes = std::uint64_t{8} << 30;
  if (const auto why = kfd::add_gpus(machine, std::move(request))) give_up(*why);
}

}  // namespace

FuzzMachine gpu_machine(std::uint8_t variant) {
  Settings settings = small_settings();
  settings.flavour.rocm_dkms = variant % 2 == 0;
  settings.flavour.kfd_minor = variant % 4 < 2 ? 23 : 17;
  settings.dispatch = variant % 8 < 4 ? DispatchPolicy::kQueueError : DispatchPolicy::kSkip;
  FuzzMachine made = make(std::move(settings));
  add_gpus(*made.machine, {"gfx90a", "gfx1201"});
  return made;
}

FuzzMachine npu_machine(std::uint8_t variant) {
  constexpr const char* kFlavours[] = {"out-of-tree", "mainline", "first", "legacy"};
  constexpr const char* kProfiles[] = {"npu4", "npu1"};
  Settings settings = small_settings();
  settings.limits.system_bytes = Limits::kNone;  // a heap alone is 64 MiB
  settings.flavour.amdxdna = kFlavours[variant % 4];
  settings.npu_complete_unsupported = variant / 8 % 2 == 1;
  FuzzMachine made = make(std::move(settings));
  auto profile = xdna::load_npu_profile(kProfiles[variant / 4 % 2], {PROFILE_DIRECTORY});
  if (const auto* why = std::get_if<std::string>(&profile)) give_up(*why);
  xdna::add_npus(*made.machine, {std::get<xdna::NpuProfile>(profile)});
  return made;
}

std::shared_ptr<Machine> host_machine() {
  auto host = std::make_shared<Machine>(small_settings(), std::make_unique<ManualClock>());
  add_gpus(*host, {"gfx90a"});
  return host;
}

FuzzMachine virtio_machine(std::uint8_t variant) {
  constexpr const char* kLayouts[] = {"upstream", "userptr-v5"};
  constexpr const char* kRequests[] = {"rocm,hostmem=1G", "gl,blob=on,hostmem=1G"};
  Settings settings = small_settings();
  settings.flavour.virtio_blob_layout = kLayouts[variant % 2];
  settings.flavour.virtio_device = "series";
  FuzzMachine made = make(std::move(settings));
  const bool is_rocm = variant / 2 % 2 == 0;
  const auto parsed = virtio_gpu::parse_request(kRequests[is_rocm ? 0 : 1]);
  if (parsed.problem) give_up(*parsed.problem);
  const auto added =
      virtio_gpu::add_device(*made.machine, is_rocm ? host_machine() : nullptr, parsed.request);
  if (added.problem) give_up(*added.problem);
  return made;
}

std::vector<std::uint64_t> gpu_ids(Machine& machine) {
  std::vector<std::uint64_t> ids;
  for (unsigned node = 0;; ++node) {
    const auto entry =
        machine.sysfs().find(fmt::format("devices/virtual/kfd/kfd/topology/nodes/{}/gpu_id", node));
    if (!entry) return ids;
    const Result<std::string> text = SysfsTree::read(*entry);
    if (text && text.value() != "0\n") ids.push_back(std::stoull(text.value()));
  }
}

}  // namespace understudy::fuzz
