// KfdFile's handlers of tools: checkpoint/restore, debugger, profiler, system-management events, secondary
// contexts. Mirrors amdkfd/kfd_chardev.c: kfd_ioctl_criu, kfd_ioctl_set_debug_trap, kfd_ioctl_profiler,
// kfd_ioctl_smi_events.
//
// Checkpointing and debugging themselves are not simulated: the calls check what the driver checks before it
// starts, then answer as it does where the feature is missing.
#include <linux/capability.h>
#include <signal.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <utility>

#include "sim/kfd/kfd_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

// Sizes of the private data a checkpoint would hold: kfd_priv.h: kfd_criu_*_priv_data.
constexpr std::uint64_t kCriuProcessBytes = 8;
constexpr std::uint64_t kCriuDeviceBytes = 8;
constexpr std::uint64_t kCriuBoBytes = 272;
constexpr std::uint64_t kCriuQueueBytes = 120;
constexpr std::uint64_t kCriuQueueStateBytes = 2048;  // the hardware queue descriptor
constexpr std::uint64_t kCriuEventBytes = 64;
constexpr std::uint64_t kCriuSvmRangeBytes = 24;
constexpr std::uint64_t kCriuSvmAttributes = 4;  // besides one per GPU

pid_t tracer_of(pid_t pid) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/status", pid);
  const std::unique_ptr<FILE, int (*)(FILE*)> status(std::fopen(path, "re"),
                                                     [](FILE* file) { return file ? std::fclose(file) : 0; });
  pid_t tracer = 0;
  char line[256];
  while (status && std::fgets(line, sizeof line, status.get())) {
    if (std::sscanf(line, "TracerPid: %d", &tracer) == 1) break;
  }
  return tracer;
}

bool process_exists(pid_t pid) {
  return pid > 0 && (::kill(pid, 0) == 0 || errno != ESRCH);
}

}  // namespace

// kfd_chardev.c: criu_process_info. Requires the process's mutex.
Outcome KfdFile::criu_process_info(kfd_ioctl_criu_args& args) {
  KfdProcess& process = this->process();
  if (process.devices().empty()) return Errno(ENODEV);
  if (!std::exchange(process.queues_paused, true)) {
    process.evict_queues_locked(KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
  }
  args.pid = static_cast<std::uint32_t>(process.client()->pid());
  args.num_devices = static_cast<std::uint32_t>(process.devices().size());
  std::uint64_t private_bytes = kCriuProcessBytes + args.num_devices * kCriuDeviceBytes;
  args.num_bos = 0;
  for (const ProcessDevice& device : process.devices()) {
    args.num_bos += static_cast<std::uint32_t>(device.memory.size());
  }
  private_bytes += args.num_bos * kCriuBoBytes;
  for (const auto& [id, queue] : process.queues().all()) {
    private_bytes += kCriuQueueBytes + kCriuQueueStateBytes + queue->properties.control_stack_size_bytes;
  }
  const std::size_t events = process.events().count(), ranges = process.svm().range_count();
  private_bytes += events * kCriuEventBytes;
  private_bytes += ranges * (kCriuSvmRangeBytes +
                             (kCriuSvmAttributes + args.num_devices) * sizeof(kfd_ioctl_svm_attribute));
  args.num_objects = static_cast<std::uint32_t>(process.queues().all().size() + events + ranges);
  args.priv_data_size = private_bytes;
  return 0;
}

Outcome KfdFile::criu_op(Call&, kfd_ioctl_criu_args& args) {
  const std::lock_guard lock(process().mutex());
  switch (args.op) {
    case KFD_CRIU_OP_PROCESS_INFO:
      return criu_process_info(args);
    case KFD_CRIU_OP_UNPAUSE:
      if (!std::exchange(process().queues_paused, false)) return Errno(EINVAL);
      process().restore_queues_locked();
      return 0;
    case KFD_CRIU_OP_RESUME:
      if (!process_exists(static_cast<pid_t>(args.pid)) ||
          !driver_->process_of_pid(static_cast<pid_t>(args.pid))) {
        return Errno(ESRCH);
      }
      return Errno(EINVAL);  // nothing was restored
    case KFD_CRIU_OP_CHECKPOINT:
    case KFD_CRIU_OP_RESTORE:
      break;
  }
  return Errno(EINVAL);
}

Outcome KfdFile::dbg_trap(Call& call, kfd_ioctl_dbg_trap_args& args) {
  if (process().is_secondary()) return Errno(EOPNOTSUPP);
  const auto pid = static_cast<pid_t>(args.pid);
  if (!process_exists(pid)) return Errno(ESRCH);
  const auto target = driver_->process_of_pid(pid);
  if (!target) return Errno(ESRCH);
  if (target.get() != &process() && tracer_of(pid) != call.client().pid()) return Errno(EPERM);
  if (args.op != KFD_IOC_DBG_TRAP_ENABLE) return Errno(EINVAL);  // never enabled
  return Errno(ENODEV);                                          // firmware without debugger support
}

Outcome KfdFile::profiler(Call& call, kfd_ioctl_profiler_args& args) {
  switch (args.op) {
    case KFD_IOC_PROFILER_VERSION:
      args.version = KFD_IOC_PROFILER_VERSION_NUM;
      return 0;
    case KFD_IOC_PROFILER_PMC: {
      if (!call.client().has_capability(CAP_PERFMON) && !call.client().has_capability(CAP_SYS_ADMIN)) {
        return Errno(EPERM);
      }
      const std::lock_guard lock(process().mutex());
      const ProcessDevice& device = *TRY(process().device(args.pmc.gpu_id));
      return driver_->lock_for_profiling(device.gpu, process(), args.pmc.lock != 0);
    }
    case KFD_IOC_PROFILER_PTL_CONTROL:
      return Errno(EOPNOTSUPP);
  }
  return Errno(EINVAL);
}

Outcome KfdFile::smi_events(Call& call, kfd_ioctl_smi_events_args& args) {
  SmiEvents* events = nullptr;
  {
    const std::lock_guard lock(process().mutex());
    events = &driver_->smi_events(TRY(process().device(args.gpuid))->gpu);
  }
  UniqueFd descriptor = TRY(events->open(call.machine().files(), call.client()));
  return call.hand_fd(std::move(descriptor), offsetof(kfd_ioctl_smi_events_args, anon_fd),
                      /*close_on_exec=*/false);
}

// kfd_chardev.c: kfd_ioctl_create_process. This file leaves the process's context for one of its own.
Outcome KfdFile::create_process(Call&) {
  const std::lock_guard lock(secondary_mutex_);
  if (secondary_) return Errno(EINVAL);
  secondary_ = std::make_shared<KfdProcess>(*driver_, opener_->client(), /*secondary=*/true);
  current_ = secondary_.get();
  return 0;
}

}  // namespace understudy::kfd
