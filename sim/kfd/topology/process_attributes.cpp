#include "sim/kfd/topology/process_attributes.h"

#include <fmt/format.h>

#include "sim/kfd/kfd_process.h"
#include "sim/kfd/topology/kfd_tree.h"

namespace understudy::kfd {
namespace {

// amdgpu_pasid_alloc hands out 16 bits, from the upper half.
constexpr std::uint64_t kFirstPasid = 0x8000, kPasidCount = 0x8000;
// kgd2kfd calls of gfx9 only can count the waves of a process.
constexpr std::uint64_t kFirstVersionWithoutOccupancy = 100000;

// kfd_priv.h: enum kfd_queue_type, where the kernel's own types lie in between.
unsigned shown_type(QueueType type) {
  switch (type) {
    case QueueType::kCompute:
      return 0;
    case QueueType::kSdma:
      return 1;
    case QueueType::kSdmaXgmi:
      return 4;
    case QueueType::kSdmaByEngine:
      return 5;
  }
  return 0;
}

std::string directory_of(pid_t pid) {
  return fmt::format("{}/proc/{}", kKfdDirectory, pid);
}

std::string queue_directory(pid_t pid, std::uint32_t queue_id) {
  return fmt::format("{}/queues/{}", directory_of(pid), queue_id);
}

Result<std::string> vram_usage(const std::weak_ptr<KfdProcess>& weak_process, std::uint32_t gpu_id) {
  const std::shared_ptr<KfdProcess> process = weak_process.lock();
  if (!process) return Errno(ENODEV);
  const std::lock_guard lock(process->mutex());
  const ProcessDevice& device = *TRY(process->device(gpu_id));
  return fmt::format("{}\n", device.vram_usage_bytes);
}

}  // namespace

void add_process_attributes(SysfsTree& sysfs, const std::shared_ptr<KfdProcess>& process) {
  const std::string directory = directory_of(process->client()->pid());
  sysfs.attribute(directory + "/pasid", fmt::format("{}\n", kFirstPasid + process->key() % kPasidCount));
  sysfs.directory(directory + "/queues");
  for (const ProcessDevice& device : process->devices()) {
    const std::uint32_t gpu_id = device.gpu.gpu_id();
    sysfs.attribute(
        fmt::format("{}/vram_{}", directory, gpu_id),
        [weak_process = std::weak_ptr(process), gpu_id] { return vram_usage(weak_process, gpu_id); });
    sysfs.attribute(fmt::format("{}/sdma_{}", directory, gpu_id), "0\n");
    sysfs.attribute(fmt::format("{}/stats_{}/evicted_ms", directory, gpu_id), "0\n");
    if (device.gpu.profile().property("gfx_target_version") < kFirstVersionWithoutOccupancy)
      sysfs.attribute(fmt::format("{}/stats_{}/cu_occupancy", directory, gpu_id), "0\n");
    for (const char* counter : {"faults", "page_in", "page_out"})
      sysfs.attribute(fmt::format("{}/counters_{}/{}", directory, gpu_id, counter), "0\n");
  }
}

void remove_process_attributes(SysfsTree& sysfs, pid_t pid) {
  sysfs.remove(directory_of(pid));
}

void add_queue_attributes(SysfsTree& sysfs, pid_t pid, const Queue& queue) {
  const std::string directory = queue_directory(pid, queue.id);
  // Without a newline, as the driver prints them.
  sysfs.attribute(directory + "/gpuid", fmt::format("{}", queue.device->gpu.gpu_id()));
  sysfs.attribute(directory + "/size", fmt::format("{}", queue.properties.ring_size_bytes));
  sysfs.attribute(directory + "/type", fmt::format("{}", shown_type(queue.properties.type)));
}

void remove_queue_attributes(SysfsTree& sysfs, pid_t pid, std::uint32_t queue_id) {
  sysfs.remove(queue_directory(pid, queue_id));
}

}  // namespace understudy::kfd
