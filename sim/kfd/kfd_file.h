// KfdFile: one open of /dev/kfd: the dispatcher and the handlers of its ioctls.
//
// Owner: FileTable. The state is the KfdProcess's; a file only says whose. Units: as the ABI's.
// Errors: EBADF for every call from another process than the opener; the rest per handler, in the driver's
// order. Thread-safety: handlers run in parallel and lock the process. Mirrors: amdkfd/kfd_chardev.c.
//
// The handlers' definitions are in kfd_file.cpp (dispatch, mmap, device queries), memory_ioctls.cpp,
// dmabuf_ioctls.cpp, svm_ioctls.cpp, event_ioctls.cpp, queue_ioctls.cpp and debug_ioctls.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "sim/core/file.h"
#include "sim/core/ioctl_table.h"
#include "sim/kfd/kfd_driver.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"

namespace understudy::kfd {

class KfdFile : public File {
 public:
  KfdFile(std::shared_ptr<KfdDriver> driver, std::shared_ptr<KfdProcess> process, dev_t device_number);

  std::string label() const override { return "kfd"; }
  dev_t device_number() const override { return device_number_; }
  void ioctl(const CallRef& call) override;
  Result<MmapTarget> mmap(Call& call, const MmapRequest& request) override;

  // A secondary context ends with its file; a process's own does not.
  void release() override;

  KfdProcess& process() const { return *current_.load(std::memory_order_acquire); }

  Outcome get_version(Call& call, uapi::kfd::kfd_ioctl_get_version_args& args);
  Outcome get_clock_counters(Call& call, uapi::kfd::kfd_ioctl_get_clock_counters_args& args);
  Outcome get_process_apertures(Call& call, uapi::kfd::kfd_ioctl_get_process_apertures_args& args);
  Outcome get_process_apertures_new(Call& call, uapi::kfd::kfd_ioctl_get_process_apertures_new_args& args);
  Outcome get_tile_config(Call& call, uapi::kfd::kfd_ioctl_get_tile_config_args& args);
  Outcome set_memory_policy(Call& call, uapi::kfd::kfd_ioctl_set_memory_policy_args& args);
  Outcome set_scratch_backing_va(Call& call, uapi::kfd::kfd_ioctl_set_scratch_backing_va_args& args);
  Outcome set_trap_handler(Call& call, uapi::kfd::kfd_ioctl_set_trap_handler_args& args);
  Outcome set_xnack_mode(Call& call, uapi::kfd::kfd_ioctl_set_xnack_mode_args& args);
  Outcome runtime_enable(Call& call, uapi::kfd::kfd_ioctl_runtime_enable_args& args);
  Outcome available_memory(Call& call, uapi::kfd::kfd_ioctl_get_available_memory_args& args);

  Outcome acquire_vm(Call& call, uapi::kfd::kfd_ioctl_acquire_vm_args& args);
  Outcome alloc_memory_of_gpu(Call& call, uapi::kfd::kfd_ioctl_alloc_memory_of_gpu_args& args);
  Outcome free_memory_of_gpu(Call& call, uapi::kfd::kfd_ioctl_free_memory_of_gpu_args& args);
  Outcome map_memory_to_gpu(Call& call, uapi::kfd::kfd_ioctl_map_memory_to_gpu_args& args);
  Outcome unmap_memory_from_gpu(Call& call, uapi::kfd::kfd_ioctl_unmap_memory_from_gpu_args& args);

  Outcome export_dmabuf(Call& call, uapi::kfd::kfd_ioctl_export_dmabuf_args& args);
  Outcome import_dmabuf(Call& call, uapi::kfd::kfd_ioctl_import_dmabuf_args& args);
  Outcome get_dmabuf_info(Call& call, uapi::kfd::kfd_ioctl_get_dmabuf_info_args& args);
  Outcome ipc_export_handle(Call& call, uapi::kfd_rocm::kfd_ioctl_ipc_export_handle_args& args);
  Outcome ipc_import_handle(Call& call, uapi::kfd_rocm::kfd_ioctl_ipc_import_handle_args& args);
  Outcome cross_memory_copy(Call& call, uapi::kfd_rocm::kfd_ioctl_cross_memory_copy_args& args);
  Outcome svm(Call& call, uapi::kfd::kfd_ioctl_svm_args& args);

  Outcome create_event(Call& call, uapi::kfd::kfd_ioctl_create_event_args& args);
  Outcome destroy_event(Call& call, uapi::kfd::kfd_ioctl_destroy_event_args& args);
  Outcome set_event(Call& call, uapi::kfd::kfd_ioctl_set_event_args& args);
  Outcome reset_event(Call& call, uapi::kfd::kfd_ioctl_reset_event_args& args);
  Outcome wait_events(Call& call, uapi::kfd::kfd_ioctl_wait_events_args& args);

  Outcome create_queue(Call& call, uapi::kfd::kfd_ioctl_create_queue_args& args);
  Outcome destroy_queue(Call& call, uapi::kfd::kfd_ioctl_destroy_queue_args& args);
  Outcome update_queue(Call& call, uapi::kfd::kfd_ioctl_update_queue_args& args);
  Outcome set_cu_mask(Call& call, uapi::kfd::kfd_ioctl_set_cu_mask_args& args);
  Outcome get_queue_wave_state(Call& call, uapi::kfd::kfd_ioctl_get_queue_wave_state_args& args);
  Outcome alloc_queue_gws(Call& call, uapi::kfd::kfd_ioctl_alloc_queue_gws_args& args);

  Outcome smi_events(Call& call, uapi::kfd::kfd_ioctl_smi_events_args& args);
  Outcome criu_op(Call& call, uapi::kfd::kfd_ioctl_criu_args& args);
  Outcome dbg_trap(Call& call, uapi::kfd::kfd_ioctl_dbg_trap_args& args);
  Outcome profiler(Call& call, uapi::kfd::kfd_ioctl_profiler_args& args);
  Outcome create_process(Call& call);

 private:
  Result<std::shared_ptr<KfdProcess>> process_for_mmap(const Client& client) const;
  bool is_opener(const Client& client) const { return client.id() == opener_->client()->id(); }
  unsigned kfd_minor() const { return driver_->kfd_minor(); }
  std::string ledger_key(KfdHandle handle) const;
  void note_unknown_handle(Call& call, KfdHandle handle);
  static LedgerEntry open_ledger_line(Call& call, KfdHandle handle, const AmdgpuBo& bo);
  Result<std::shared_ptr<KfdMemory>> import_memory(Call& call, ProcessDevice& device,
                                                   const DmaBufRef& dma_buf, std::uint64_t address,
                                                   std::uint64_t& handle_value);
  Outcome criu_process_info(uapi::kfd::kfd_ioctl_criu_args& args);

  const std::shared_ptr<KfdDriver> driver_;
  const std::shared_ptr<KfdProcess> opener_;
  const dev_t device_number_;
  std::mutex secondary_mutex_;
  std::shared_ptr<KfdProcess> secondary_;  // set once, guarded by secondary_mutex_
  std::atomic<KfdProcess*> current_;       // opener_ or secondary_
};

}  // namespace understudy::kfd
