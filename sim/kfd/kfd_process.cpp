#include "sim/kfd/kfd_process.h"

#include <time.h>

#include <atomic>
#include <cstdio>

#include "sim/kfd/kfd_driver.h"

namespace understudy::kfd {
namespace {

// Before 7.0 only the largest kmalloc() bounds a wait: 4 MiB of 56 bytes each.
constexpr std::uint32_t kMaxWaitersOf6 = 4 * 1024 * 1024 / 56;

long long boottime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::uint64_t next_key() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Events::Rules event_rules(const KfdDriver& driver) {
  Events::Rules rules;
  rules.slot_limit = driver.machine().settings().limits.events;
  if (driver.kfd_minor() < kFirstMinorOf7) {
    rules.kernel_makes_page = true;
    rules.max_waited = kMaxWaitersOf6;
  }
  return rules;
}

}  // namespace

Result<std::shared_ptr<GpuVm>> ProcessDevice::vm() const {
  if (!file) return Errno(ENODEV);
  return file->vm();
}

const BufferRef& ProcessDevice::ensure_doorbells() {
  if (!doorbells) doorbells = Buffer::create("kfd-doorbells", KfdProcess::kDoorbellSliceBytes);
  return doorbells;
}

const BufferRef& ProcessDevice::ensure_mmio_page() {
  if (!mmio_page) mmio_page = Buffer::create("kfd-mmio-remap", KfdProcess::kMmioPageBytes);
  return mmio_page;
}

KfdProcess::KfdProcess(KfdDriver& driver, ClientRef client, bool secondary)
    : driver_(driver),
      client_(std::move(client)),
      key_(next_key()),
      secondary_(secondary),
      events_(std::make_shared<Events>(driver.machine(), event_rules(driver))),
      svm_(std::make_shared<Svm>(client_, driver.gpus())),
      queues_(driver, *this) {
  for (const auto& gpu : driver.gpus()) devices_.emplace_back(*gpu);
}

KfdProcess::~KfdProcess() {
  terminate();
}

Result<ProcessDevice*> KfdProcess::device(std::uint32_t gpu_id) {
  for (ProcessDevice& device : devices_) {
    if (device.gpu.gpu_id() == gpu_id) return &device;
  }
  return Errno(EINVAL);
}

std::shared_ptr<KfdMemory> KfdProcess::memory(KfdHandle handle) {
  const auto found = device(handle.gpu_id);
  if (!found) return nullptr;
  const auto* memory = found.value()->memory.find(handle.index);
  return memory ? *memory : nullptr;
}

std::vector<std::shared_ptr<GpuVm>> KfdProcess::vms() const {
  std::vector<std::shared_ptr<GpuVm>> vms;
  for (const ProcessDevice& device : devices_) {
    if (device.file) vms.push_back(device.file->vm());
  }
  return vms;
}

std::shared_ptr<KfdMemory> KfdProcess::memory_at(std::uint64_t address, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  for (const ProcessDevice& device : devices_) {
    for (const auto& [index, memory] : device.memory.all()) {
      const std::uint64_t offset = address - memory->address();
      if (memory->address() != 0 && address >= memory->address() && offset <= memory->mapped_size_bytes() &&
          size_bytes <= memory->mapped_size_bytes() - offset) {
        return memory;
      }
    }
  }
  return nullptr;
}

void KfdProcess::evict_queues(std::uint32_t trigger) {
  const std::lock_guard lock(mutex_);
  evict_queues_locked(trigger);
}

void KfdProcess::restore_queues() {
  const std::lock_guard lock(mutex_);
  restore_queues_locked();
}

void KfdProcess::evict_queues_locked(std::uint32_t trigger) {
  for (const ProcessDevice& device : devices_) {
    char text[64];
    std::snprintf(text, sizeof text, "%lld -%d %x %u", boottime_ns(), client_->pid(), device.gpu.gpu_id(),
                  trigger);
    driver_.smi_events(device.gpu).report(client_->pid(), uapi::kfd::KFD_SMI_EVENT_QUEUE_EVICTION, text);
  }
  queues_.pause();
}

void KfdProcess::restore_queues_locked() {
  for (const ProcessDevice& device : devices_) {
    char text[64];
    std::snprintf(text, sizeof text, "%lld -%d %x", boottime_ns(), client_->pid(), device.gpu.gpu_id());
    driver_.smi_events(device.gpu).report(client_->pid(), uapi::kfd::KFD_SMI_EVENT_QUEUE_RESTORE, text);
  }
  queues_.resume();
}

// kfd_process.c: kfd_process_notifier_release_internal and kfd_process_wq_release: queues first, then events,
// then memory in every page table, then the render files.
void KfdProcess::terminate() {
  events_->clear();
  std::vector<std::shared_ptr<AmdgpuFile>> files;
  {
    const std::lock_guard lock(mutex_);
    queues_.destroy_all();
    for (ProcessDevice& device : devices_) {
      for (auto& [index, memory] : device.memory.all()) memory->unmap_everywhere();
    }
    for (ProcessDevice& device : devices_) {
      (void)device.memory.take_all();
      if (device.file) files.push_back(std::move(device.file));
    }
  }
  for (const auto& file : files) file->let_go();
}

}  // namespace understudy::kfd
