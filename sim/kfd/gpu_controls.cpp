#include "sim/kfd/gpu_controls.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "sim/kfd/engine/gpu_scheduler.h"
#include "sim/kfd/kfd_driver.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kPageMask = 4095;
// PROCESS_RESTORE_TIME_MS: evicted queues come back after this long.
constexpr std::uint64_t kRestoreAfterNs = 2'000'000'000;

long long boottime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::vector<std::shared_ptr<KfdProcess>> affected(const KfdDriver& driver,
                                                  const ControlArguments& arguments) {
  auto processes = driver.processes();
  std::erase_if(processes, [&](const auto& process) {
    return arguments.client_id != 0 && process->client()->id() != arguments.client_id;
  });
  return processes;
}

void memory_exception(KfdDriver& driver, Gpu& gpu, const ControlArguments& arguments) {
  const GpuFault fault = GpuFault::of(arguments.address, Access::kRead, /*present=*/false);
  for (const auto& process : affected(driver, arguments)) {
    driver.scheduler(gpu).evict(process->key());
    driver.report_vm_fault(gpu, *process->client(), process->events(), fault);
  }
}

// Poison was consumed: the process learns of it by both exceptions and by SIGBUS.
void ecc_error(KfdDriver& driver, Gpu& gpu, const ControlArguments& arguments) {
  kfd_hsa_memory_exception_data memory{};
  memory.ErrorType = KFD_MEM_ERR_POISON_CONSUMED;
  memory.failure.imprecise = 1;
  memory.va = arguments.address & ~kPageMask;
  memory.gpu_id = gpu.gpu_id();
  kfd_hsa_hw_exception_data hardware{};
  hardware.memory_lost = 1;
  hardware.reset_cause = KFD_HW_EXCEPTION_ECC;
  hardware.gpu_id = gpu.gpu_id();
  for (const auto& process : affected(driver, arguments)) {
    process->events().raise_hw_exception(hardware);
    process->events().raise_memory_exception(memory);
    ::syscall(SYS_pidfd_send_signal, process->client()->pidfd(), SIGBUS, nullptr, 0);
  }
}

// Processes from before a reset stay evicted until they end.
void after_reset(KfdDriver& driver, Gpu& gpu) {
  SmiEvents& watchers = driver.smi_events(gpu);
  char sequence[16];
  std::snprintf(sequence, sizeof sequence, "%x", gpu.reset_count());
  watchers.report(0, KFD_SMI_EVENT_GPU_PRE_RESET, sequence);
  kfd_hsa_hw_exception_data data{};
  data.memory_lost = 1;
  data.reset_cause = KFD_HW_EXCEPTION_GPU_HANG;
  data.gpu_id = gpu.gpu_id();
  for (const auto& process : driver.processes()) {
    process->evict_queues(KFD_QUEUE_EVICTION_TRIGGER_SUSPEND);
    process->events().raise_hw_exception(data);
  }
  watchers.report(0, KFD_SMI_EVENT_GPU_POST_RESET, sequence);
}

void evict(KfdDriver& driver, const ControlArguments& arguments, std::uint32_t trigger) {
  for (const auto& process : affected(driver, arguments)) {
    process->evict_queues(trigger);
    driver.machine().clock().after(kRestoreAfterNs, [weak = std::weak_ptr(process)] {
      if (const auto alive = weak.lock()) alive->restore_queues();
    });
  }
}

// Pages stay where they are; watchers see a range go to the GPU and the prefetch that caused it.
void migrate(KfdDriver& driver, Gpu& gpu, const ControlArguments& arguments) {
  const unsigned long long first = arguments.address >> 12, pages = (arguments.size_bytes + kPageMask) >> 12;
  for (const auto& process : affected(driver, arguments)) {
    const pid_t pid = process->client()->pid();
    char text[128];
    std::snprintf(text, sizeof text, "%lld -%d @%llx(%llx) %x->%x %x:%x %u", boottime_ns(), pid, first, pages,
                  0u, gpu.gpu_id(), gpu.gpu_id(), 0u, KFD_MIGRATE_TRIGGER_PREFETCH);
    driver.smi_events(gpu).report(pid, KFD_SMI_EVENT_MIGRATE_START, text);
    std::snprintf(text, sizeof text, "%lld -%d @%llx(%llx) %x->%x %u", boottime_ns(), pid, first, pages, 0u,
                  gpu.gpu_id(), KFD_MIGRATE_TRIGGER_PREFETCH);
    driver.smi_events(gpu).report(pid, KFD_SMI_EVENT_MIGRATE_END, text);
  }
}

// Since 6.17 processes on a GPU that goes are ended with SIGBUS; before, their queues just stop.
void unplug(KfdDriver& driver, Gpu& gpu) {
  gpu.unplug();
  for (const auto& process : driver.processes()) {
    driver.scheduler(gpu).evict(process->key());
    if (driver.kfd_minor() >= kFirstMinorOf6_17) {
      ::syscall(SYS_pidfd_send_signal, process->client()->pidfd(), SIGBUS, nullptr, 0);
    }
  }
}

}  // namespace

void add_gpu_controls(KfdDriver& driver, std::weak_ptr<void> alive) {
  Controls& controls = driver.machine().controls();
  const auto add = [&](const char* action, void (*apply)(KfdDriver&, Gpu&, const ControlArguments&)) {
    const auto guarded = [&driver, alive, apply](const std::vector<Gpu*>& gpus) {
      return [&driver, alive, apply, gpus](const ControlArguments& arguments) -> Result<void> {
        if (alive.expired()) return Errno(ENODEV);
        for (Gpu* const gpu : gpus) apply(driver, *gpu, arguments);
        return {};
      };
    };
    std::vector<Gpu*> all;
    for (const auto& gpu : driver.gpus()) {
      all.push_back(gpu.get());
      controls.add("dri/renderD" + std::to_string(gpu->placement().render_minor), action,
                   guarded({gpu.get()}));
    }
    controls.add("kfd", action, guarded(all));
  };
  add("memory-exception", &memory_exception);
  add("ecc", &ecc_error);
  add("reset",
      [](KfdDriver&, Gpu& gpu, const ControlArguments& arguments) { gpu.reset(arguments.vram_lost); });
  add("migrate", &migrate);
  add("unplug", [](KfdDriver& driver, Gpu& gpu, const ControlArguments&) { unplug(driver, gpu); });
  add("exhaust-vram",
      [](KfdDriver&, Gpu& gpu, const ControlArguments& arguments) { gpu.leave_vram(arguments.number); });
  const auto add_eviction = [&](const char* action, std::uint32_t trigger) {
    const auto run = [&driver, alive, trigger](const ControlArguments& arguments) -> Result<void> {
      if (alive.expired()) return Errno(ENODEV);
      evict(driver, arguments, trigger);
      return {};
    };
    // An eviction takes a process off all GPUs, whichever it was asked of.
    for (const auto& gpu : driver.gpus()) {
      controls.add("dri/renderD" + std::to_string(gpu->placement().render_minor), action, run);
    }
    controls.add("kfd", action, run);
  };
  add_eviction("evict", KFD_QUEUE_EVICTION_TRIGGER_TTM);
  add_eviction("invalidate-userptr", KFD_QUEUE_EVICTION_TRIGGER_USERPTR);
  for (const auto& gpu : driver.gpus()) {
    gpu->on_reset([&driver, alive, &gpu = *gpu](bool) {
      if (!alive.expired()) after_reset(driver, gpu);
    });
  }
}

}  // namespace understudy::kfd
