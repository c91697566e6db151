#include "sim/kfd/kfd_driver.h"

#include <cstdio>

#include "sim/kfd/engine/gpu_scheduler.h"
#include "sim/kfd/engine/plugin_host.h"
#include "sim/kfd/gpu_controls.h"
#include "sim/kfd/topology/process_attributes.h"

namespace understudy::kfd {

KfdDriver::KfdDriver(Machine& machine, std::vector<std::shared_ptr<Gpu>> gpus, unsigned topology_node_count)
    : machine_(machine),
      gpus_(std::move(gpus)),
      topology_node_count_(topology_node_count),
      ioctls_(machine.settings().flavour) {
  for (const auto& gpu : gpus_) {
    devices_.push_back({std::make_unique<DeviceQueues>(gpu->profile()), std::make_unique<SmiEvents>(),
                        std::make_unique<engine::GpuScheduler>()});
  }
  machine.clients().on_gone([this, alive = std::weak_ptr(alive_)](const ClientRef& client) {
    if (!alive.expired()) client_gone(*client);
  });
  add_gpu_controls(*this, alive_);
}

// Queues end while the schedulers and the plug-in they use still exist.
KfdDriver::~KfdDriver() {
  for (const auto& process : processes()) process->terminate();
}

void KfdDriver::use_plugin(std::unique_ptr<engine::PluginHost> plugin) {
  plugin_ = std::move(plugin);
}

// kfd_events.c: kfd_signal_vm_fault_event.
void KfdDriver::report_vm_fault(const Gpu& gpu, const Client& client, Events& events, const GpuFault& fault) {
  char text[64];
  std::snprintf(text, sizeof text, "%x:%.15s", client.pid(), client.name().c_str());
  smi_events(gpu).report(client.pid(), uapi::kfd::KFD_SMI_EVENT_VMFAULT, text);
  uapi::kfd::kfd_hsa_memory_exception_data data{};
  data.failure.NotPresent = fault.not_present;
  data.failure.ReadOnly = fault.read_only;
  data.failure.NoExecute = fault.no_execute;
  data.va = fault.address;
  data.gpu_id = gpu.gpu_id();
  events.raise_memory_exception(data);
}

std::shared_ptr<KfdProcess> KfdDriver::ensure_process(const ClientRef& client) {
  std::shared_ptr<KfdProcess> process;
  {
    const std::lock_guard lock(mutex_);
    auto& known = processes_[client->id()];
    if (!known) {
      known = std::make_shared<KfdProcess>(*this, client, /*secondary=*/false);
      add_process_attributes(machine_.sysfs(), known);
    }
    process = known;
  }
  // Its death may have been announced before the entry existed.
  if (client->gone()) client_gone(*client);
  return process;
}

std::shared_ptr<KfdProcess> KfdDriver::process_of(const Client& client) const {
  const std::lock_guard lock(mutex_);
  const auto found = processes_.find(client.id());
  return found == processes_.end() ? nullptr : found->second;
}

std::shared_ptr<KfdProcess> KfdDriver::process_of_pid(pid_t pid) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, process] : processes_) {
    if (process->client()->pid() == pid) return process;
  }
  return nullptr;
}

// kfd_chardev.c: profiler_lock_device.
Result<void> KfdDriver::lock_for_profiling(const Gpu& gpu, const KfdProcess& process, bool lock) {
  const std::lock_guard guard(mutex_);
  std::uint64_t& owner = devices_.at(gpu.placement().index).profiling_process;
  if (lock) {
    if (owner == process.key()) return Errno(EALREADY);
    if (owner != 0) return Errno(EBUSY);
    owner = process.key();
    return {};
  }
  if (owner != process.key()) return Errno(EINVAL);
  owner = 0;
  return {};
}

std::vector<std::shared_ptr<KfdProcess>> KfdDriver::processes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<KfdProcess>> all;
  for (const auto& [id, process] : processes_) all.push_back(process);
  return all;
}

void KfdDriver::client_gone(const Client& client) {
  std::shared_ptr<KfdProcess> process;
  {
    const std::lock_guard lock(mutex_);
    const auto found = processes_.find(client.id());
    if (found == processes_.end()) return;
    process = std::move(found->second);
    processes_.erase(found);
  }
  for (Device& device : devices_) {
    const std::lock_guard lock(mutex_);
    if (device.profiling_process == process->key()) device.profiling_process = 0;
  }
  process->terminate();
  // After exec the same process id may be a new KFD process.
  if (!process_of_pid(client.pid())) remove_process_attributes(machine_.sysfs(), client.pid());
}

}  // namespace understudy::kfd
