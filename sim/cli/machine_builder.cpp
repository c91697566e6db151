#include "sim/cli/machine_builder.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "sim/cli/install_paths.h"
#include "sim/cli/usage_error.h"
#include "sim/kfd/assemble.h"
#include "sim/profile/profile_files.h"
#include "sim/virtio_gpu/assemble.h"
#include "sim/xdna/assemble.h"

namespace understudy::cli {
namespace {

std::vector<kfd::GpuProfile> load_gpus(const std::vector<DeviceRequest>& requests) {
  const profile::Directories directories = profile::directories(profile_directory());
  std::vector<kfd::GpuProfile> gpus;
  for (const DeviceRequest& request : requests) {
    std::string why;
    const std::optional<kfd::GpuProfile> gpu = kfd::load_gpu_profile(request.profile, directories, &why);
    if (!gpu) throw UsageError(why);
    gpus.insert(gpus.end(), request.count, *gpu);
  }
  return gpus;
}

std::vector<xdna::NpuProfile> load_npus(const std::vector<DeviceRequest>& requests) {
  std::vector<std::string> directories;
  for (const std::filesystem::path& directory : profile::directories(profile_directory()))
    directories.push_back(directory);
  std::vector<xdna::NpuProfile> npus;
  for (const DeviceRequest& request : requests) {
    auto loaded = xdna::load_npu_profile(request.profile, directories);
    if (const auto* complaint = std::get_if<std::string>(&loaded)) throw UsageError(*complaint);
    npus.insert(npus.end(), request.count, std::get<xdna::NpuProfile>(loaded));
  }
  return npus;
}

// The machine that runs the guest. Its processors and memory are this host's; a limit of memory is the
// guest's.
std::shared_ptr<Machine> make_host(const MachineDescription& description) {
  if (description.host_gpus.empty()) return nullptr;
  Settings settings = description.settings;
  settings.limits.system_bytes = Limits::kNone;
  auto host = std::make_shared<Machine>(std::move(settings));
  if (const auto why = kfd::add_gpus(*host, kfd::GpuMachineRequest{.gpus = load_gpus(description.host_gpus)}))
    throw UsageError("--host-gpu: " + *why);
  return host;
}

void add_virtio_gpu(Machine& machine, const MachineDescription& description) {
  const virtio_gpu::ParsedRequest parsed = virtio_gpu::parse_request(description.virtio_gpu);
  if (parsed.problem) throw UsageError("--virtio-gpu: " + *parsed.problem);
  machine.run_on(make_host(description));
  const virtio_gpu::AddedDevice added = virtio_gpu::add_device(machine, machine.host(), parsed.request);
  if (added.problem) throw UsageError("--virtio-gpu: " + *added.problem);
}

}  // namespace

void compose_machine(Machine& machine, const MachineDescription& description) {
  if (!description.gpus.empty() || description.cpu_only) {
    kfd::GpuMachineRequest request{load_gpus(description.gpus), description.cpu.nodes, description.cpu.cores,
                                   description.cpu.memory_bytes};
    if (const std::optional<std::string> why = kfd::add_gpus(machine, std::move(request)))
      throw UsageError(*why);
  }
  if (!description.npus.empty()) xdna::add_npus(machine, load_npus(description.npus));
  if (description.virtio_gpu.empty() && !description.host_gpus.empty())
    throw UsageError("--host-gpu is for the host of a --virtio-gpu");
  if (!description.virtio_gpu.empty()) add_virtio_gpu(machine, description);
}

}  // namespace understudy::cli
