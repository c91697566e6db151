// KfdProcess: everything KFD keeps for one address space: per GPU the VM, handles and doorbells; events and
// queues.
//
// Owner: KfdDriver until the client is gone; open files of /dev/kfd share it, closing them changes nothing.
// Units: bytes. Errors: see the methods. Thread-safety: mutex() guards what is not const (the kernel's
// p->mutex); Events and Queues have locks of their own below it. Mirrors: amdkfd/kfd_process.c: struct
// kfd_process and kfd_process_device.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/core/client.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/events.h"
#include "sim/kfd/gpu.h"
#include "sim/kfd/id_table.h"
#include "sim/kfd/kfd_memory.h"
#include "sim/kfd/queues.h"
#include "sim/kfd/svm.h"

namespace understudy::kfd {

class KfdDriver;

// A handle of ALLOC_MEMORY_OF_GPU: the GPU's id and an index on that GPU.
struct KfdHandle {
  std::uint32_t gpu_id = 0;
  std::uint32_t index = 0;
  static KfdHandle from(std::uint64_t value) {
    return {static_cast<std::uint32_t>(value >> 32), static_cast<std::uint32_t>(value)};
  }
  std::uint64_t value() const { return std::uint64_t{gpu_id} << 32 | index; }
};

// One GPU as one process sees it. Guarded by the process's mutex.
struct ProcessDevice {
  explicit ProcessDevice(Gpu& device) : gpu(device) {}

  Gpu& gpu;
  // Set by ACQUIRE_VM; keeps the file, and so the VM, until the process is gone.
  std::shared_ptr<AmdgpuFile> file;
  IdTable<std::shared_ptr<KfdMemory>> memory{0, 0x7fffffff};
  // Made at first use: the process's doorbells, and the page of remapped HDP flush registers, which swallows
  // writes.
  BufferRef doorbells;
  BufferRef mmio_page;
  std::uint64_t vram_usage_bytes = 0;
  std::uint64_t scratch_backing_address = 0;
  std::uint64_t trap_handler_address = 0;
  std::uint64_t trap_memory_address = 0;
  std::uint32_t default_cache_policy = 0;
  std::uint32_t alternate_cache_policy = 0;

  // ENODEV without ACQUIRE_VM (kfd_bind_process_to_device).
  Result<std::shared_ptr<GpuVm>> vm() const;
  const BufferRef& ensure_doorbells();
  const BufferRef& ensure_mmio_page();
};

enum class RuntimeState : std::uint8_t { kDisabled, kEnabled };

class KfdProcess : public std::enable_shared_from_this<KfdProcess> {
 public:
  static constexpr std::uint64_t kDoorbellSliceBytes = 8192;  // 1024 doorbells of 8 bytes
  static constexpr std::uint64_t kMmioPageBytes = 4096;

  KfdProcess(KfdDriver& driver, ClientRef client, bool secondary);
  ~KfdProcess();
  KfdProcess(const KfdProcess&) = delete;

  KfdDriver& driver() const { return driver_; }
  const ClientRef& client() const { return client_; }
  // Never reused; what a compute VM remembers as its owner.
  std::uint64_t key() const { return key_; }
  bool is_secondary() const { return secondary_; }

  std::mutex& mutex() { return mutex_; }
  Events& events() { return *events_; }
  const std::shared_ptr<Events>& shared_events() const { return events_; }
  Svm& svm() { return *svm_; }
  const std::shared_ptr<Svm>& shared_svm() const { return svm_; }

  // The rest requires mutex().
  Queues& queues() { return queues_; }
  std::vector<ProcessDevice>& devices() { return devices_; }
  // EINVAL: no GPU of this process.
  Result<ProcessDevice*> device(std::uint32_t gpu_id);
  // Null when unknown.
  std::shared_ptr<KfdMemory> memory(KfdHandle handle);
  // Of the GPUs with ACQUIRE_VM.
  std::vector<std::shared_ptr<GpuVm>> vms() const;
  // Set between CRIU's PROCESS_INFO and UNPAUSE.
  bool queues_paused = false;

  KfdHandle signal_handle;  // the event page's, which cannot be freed
  bool has_signal_handle = false;
  RuntimeState runtime_state = RuntimeState::kDisabled;
  std::uint64_t r_debug_address = 0;
  bool xnack_enabled = false;

  // The memory whose address range holds the given one, on any GPU; null when there is none. Takes mutex().
  std::shared_ptr<KfdMemory> memory_at(std::uint64_t address, std::uint64_t size_bytes);

  // Stops all queues on all GPUs and tells watchers (kfd_process_evict_queues), and the reverse. `trigger`:
  // KFD_QUEUE_EVICTION_*. Take mutex().
  void evict_queues(std::uint32_t trigger);
  void restore_queues();
  // The same for who holds mutex() already.
  void evict_queues_locked(std::uint32_t trigger);
  void restore_queues_locked();

  // The address space (or the secondary context) is gone: queues stop, memory is released. Takes mutex().
  void terminate();

 private:
  KfdDriver& driver_;
  const ClientRef client_;
  const std::uint64_t key_;
  const bool secondary_;
  std::mutex mutex_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<Svm> svm_;
  std::vector<ProcessDevice> devices_;
  Queues queues_;
};

}  // namespace understudy::kfd
