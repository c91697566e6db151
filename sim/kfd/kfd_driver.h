// KfdDriver: the compute driver of a machine: its GPUs, its processes, and what the GPUs' schedulers count
// across them.
//
// Owner: KfdNode. Units: none. Errors: see the methods. Thread-safety: locks itself; processes are found
// under a lock of its own that is never held while one of them works. Mirrors: amdkfd/kfd_process.c (the
// table of processes), kfd_device_queue_manager.c (what is counted per GPU).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/machine.h"
#include "sim/kfd/device_queues.h"
#include "sim/kfd/gpu.h"
#include "sim/kfd/kfd_ioctls.h"
#include "sim/kfd/kfd_process.h"
#include "sim/kfd/smi_events.h"

namespace understudy::kfd {

// KFD minors at which behaviour changed without a number of its own; the kernel they came with.
inline constexpr unsigned kFirstMinorOf6_8 = 15;
inline constexpr unsigned kFirstMinorOf6_12 = 17;
inline constexpr unsigned kFirstMinorOf6_17 = 18;
inline constexpr unsigned kFirstMinorOf7 = 19;

namespace engine {
class GpuScheduler;
class PluginHost;
}  // namespace engine

class KfdDriver {
 public:
  // `topology_node_count`: CPU and GPU nodes of the topology, the bound of GET_PROCESS_APERTURES_NEW.
  KfdDriver(Machine& machine, std::vector<std::shared_ptr<Gpu>> gpus, unsigned topology_node_count);
  ~KfdDriver();
  KfdDriver(const KfdDriver&) = delete;

  Machine& machine() const { return machine_; }
  unsigned kfd_minor() const { return machine_.settings().flavour.kfd_minor; }
  unsigned topology_node_count() const { return topology_node_count_; }
  const std::vector<std::shared_ptr<Gpu>>& gpus() const { return gpus_; }
  const KfdIoctls& ioctls() const { return ioctls_; }
  DeviceQueues& device_queues(const Gpu& gpu) { return *devices_.at(gpu.placement().index).queues; }
  SmiEvents& smi_events(const Gpu& gpu) { return *devices_.at(gpu.placement().index).smi_events; }
  engine::GpuScheduler& scheduler(const Gpu& gpu) { return *devices_.at(gpu.placement().index).scheduler; }
  IpcHandles& ipc_handles() { return ipc_handles_; }
  // What executes kernel dispatches; null: nothing does.
  const engine::PluginHost* plugin() const { return plugin_.get(); }
  void use_plugin(std::unique_ptr<engine::PluginHost> plugin);
  // Tells a process (and whoever watches the GPU) of a memory fault of one of its queues.
  void report_vm_fault(const Gpu& gpu, const Client& client, Events& events, const GpuFault& fault);
  // The performance counters of a GPU belong to one process. EALREADY: to this one; EBUSY: to another;
  // EINVAL: not this one's to unlock.
  Result<void> lock_for_profiling(const Gpu& gpu, const KfdProcess& process, bool lock);

  // The one process object of the client's address space, made at first use. Any number of opens share it.
  std::shared_ptr<KfdProcess> ensure_process(const ClientRef& client);
  std::shared_ptr<KfdProcess> process_of(const Client& client) const;
  std::shared_ptr<KfdProcess> process_of_pid(pid_t pid) const;  // null: no KFD process
  std::vector<std::shared_ptr<KfdProcess>> processes() const;

 private:
  void client_gone(const Client& client);

  Machine& machine_;
  const std::vector<std::shared_ptr<Gpu>> gpus_;
  const unsigned topology_node_count_;
  const KfdIoctls ioctls_;
  struct Device {
    std::unique_ptr<DeviceQueues> queues;
    std::unique_ptr<SmiEvents> smi_events;
    std::unique_ptr<engine::GpuScheduler> scheduler;
    std::uint64_t profiling_process = 0;  // KfdProcess::key(); guarded by mutex_
  };
  std::vector<Device> devices_;  // by GPU index
  IpcHandles ipc_handles_;
  std::unique_ptr<engine::PluginHost> plugin_;
  // Lets the observer of dying clients, which outlives the driver, see that it is gone.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<KfdProcess>> processes_;  // by Client::id(); guarded by mutex_
};

}  // namespace understudy::kfd
