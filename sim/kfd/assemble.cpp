#include "sim/kfd/assemble.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "sim/kfd/engine/plugin_host.h"
#include "sim/kfd/kfd_driver.h"
#include "sim/kfd/kfd_node.h"
#include "sim/kfd/render/render_node.h"
#include "sim/kfd/topology/amdgpu_attributes.h"
#include "sim/kfd/topology/drm_tree.h"
#include "sim/kfd/topology/graph.h"
#include "sim/kfd/topology/kfd_tree.h"
#include "sim/kfd/topology/module_tree.h"
#include "sim/kfd/topology/pci_tree.h"
#include "sim/kfd/topology/placement.h"
#include "sim/kfd/topology/power_attributes.h"

namespace understudy::kfd {
namespace {

constexpr unsigned kMaxCpuCores = 8192;
constexpr unsigned kCpuClockMhz = 3400;
// The seed whose machine is as the driver would build it; others shuffle what programs should not rely on.
constexpr std::uint64_t kOrderlySeed = 1;

CpuLayout cpu_layout(const GpuMachineRequest& request) {
  CpuLayout cpu;
  cpu.node_count = request.cpu_nodes;
  cpu.core_count = request.cpu_cores;
  cpu.memory_bytes = request.memory_bytes;
  cpu.max_clock_mhz = kCpuClockMhz;
  if (cpu.core_count == 0) {
    const auto online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    cpu.core_count = std::max(online, cpu.node_count);
  }
  if (cpu.memory_bytes == 0) {
    struct sysinfo host {};
    ::sysinfo(&host);
    cpu.memory_bytes = std::uint64_t{host.totalram} * host.mem_unit;
  }
  while (std::filesystem::exists(fmt::format("/sys/devices/system/node/node{}", cpu.host_node_count)))
    ++cpu.host_node_count;
  return cpu;
}

// amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_gpuvm_init_mem_limits; TTM takes half of the memory.
std::shared_ptr<SystemMemory> system_memory(const CpuLayout& cpu, const Limits& limits) {
  constexpr std::uint64_t kKeptForSystem = 3ull << 29;  // 1.5 GiB
  auto memory = std::make_shared<SystemMemory>();
  const std::uint64_t usable = cpu.memory_bytes - cpu.memory_bytes / 64;
  const std::uint64_t allowed = usable >= 2 * kKeptForSystem ? usable - kKeptForSystem : usable / 2;
  memory->limit_bytes = std::min(allowed, limits.system_bytes);
  memory->ttm_limit_bytes = std::min(cpu.memory_bytes / 2, limits.system_bytes);
  return memory;
}

// DRM devices of other drivers come first.
unsigned count_render_nodes(const Machine& machine) {
  return static_cast<unsigned>(
      std::count_if(machine.nodes().begin(), machine.nodes().end(),
                    [](const auto& node) { return node->path().starts_with("dri/renderD"); }));
}

std::vector<std::shared_ptr<Gpu>> make_gpus(Machine& machine, const GpuMachineRequest& request,
                                            const CpuLayout& cpu, const Draw& draw) {
  const std::vector<GpuPlacement> placements =
      place_gpus(request.gpus, cpu.node_count, count_render_nodes(machine), draw);
  const std::shared_ptr<SystemMemory> memory = system_memory(cpu, machine.settings().limits);
  std::uint64_t total_vram_bytes = 0;
  for (const GpuProfile& profile : request.gpus) total_vram_bytes += profile.vram_bytes;
  std::vector<std::shared_ptr<Gpu>> gpus;
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    gpus.push_back(std::make_shared<Gpu>(machine, request.gpus[i], placements[i], memory, total_vram_bytes));
  }
  return gpus;
}

void add_sysfs(Machine& machine, const std::vector<std::shared_ptr<Gpu>>& gpus, const CpuLayout& cpu,
               const Draw& draw, dev_t kfd_number) {
  SysfsTree& sysfs = machine.sysfs();
  const bool is_orderly = machine.settings().seed == kOrderlySeed;
  add_kfd_device(sysfs, kfd_number);
  add_topology(sysfs, std::make_shared<const TopologyGraph>(cpu, gpus, is_orderly ? nullptr : &draw), cpu);
  add_amdgpu_module(machine);
  for (const auto& gpu : gpus) {
    const std::string directory = pci_directory(gpu->placement());
    add_pci_device(sysfs, *gpu, cpu, [&sysfs, directory, &gpu = *gpu] {
      add_drm_minors(sysfs, directory, gpu);
      add_amdgpu_attributes(sysfs, directory, gpu);
      add_power_attributes(sysfs, directory, gpu);
    });
    add_drm_links(sysfs, *gpu);
    sysfs.link_to(fmt::format("class/hwmon/hwmon{}", gpu->placement().index),
                  fmt::format("{}/hwmon/hwmon{}", directory, gpu->placement().index));
  }
}

std::optional<std::string> problem_of(const GpuMachineRequest& request) {
  if (request.gpus.size() > kMaxGpus)
    return fmt::format("a machine has at most {} GPUs, not {}", kMaxGpus, request.gpus.size());
  if (request.cpu_nodes < 1 || request.cpu_nodes > kMaxCpuNodes)
    return fmt::format("cpu.nodes takes a number from 1 to {}, not {}", kMaxCpuNodes, request.cpu_nodes);
  if (request.cpu_cores != 0 && (request.cpu_cores < request.cpu_nodes || request.cpu_cores > kMaxCpuCores)) {
    return fmt::format("cpu.cores takes a number from {} (one per node) to {}, not {}", request.cpu_nodes,
                       kMaxCpuCores, request.cpu_cores);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> add_gpus(Machine& machine, GpuMachineRequest request) {
  if (auto problem = problem_of(request)) return problem;
  std::unique_ptr<engine::PluginHost> plugin;
  if (const std::string& path = machine.settings().dispatch_plugin; !path.empty()) {
    std::string why;
    plugin = engine::PluginHost::load(path, &why);
    if (!plugin) return why;
  }
  const CpuLayout cpu = cpu_layout(request);
  const Draw draw = [&machine](std::string_view purpose, std::uint64_t index) {
    return machine.random(purpose, index);
  };
  const std::vector<std::shared_ptr<Gpu>> gpus = make_gpus(machine, request, cpu, draw);
  const auto driver =
      std::make_shared<KfdDriver>(machine, gpus, cpu.node_count + static_cast<unsigned>(gpus.size()));
  if (plugin) driver->use_plugin(std::move(plugin));
  const auto kfd_node = std::make_shared<KfdNode>(driver);
  add_sysfs(machine, gpus, cpu, draw, kfd_node->device_number());
  machine.add_node(kfd_node);
  for (const auto& gpu : gpus) {
    machine.keep(gpu);
    add_render_nodes(machine, gpu);
  }
  return std::nullopt;
}

}  // namespace understudy::kfd
