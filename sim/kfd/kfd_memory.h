// KfdMemory: what a KFD handle stands for: a BO, the address it goes to, and in which GPU page tables it is.
//
// Owner: ProcessDevice's handle table. Units: bytes. Errors: those of MAP/UNMAP/FREE (EINVAL, EBUSY).
// Thread-safety: none; the process's mutex guards it. Mirrors: amdgpu_amdkfd_gpuvm.c: struct kgd_mem,
// kfd_mem_attach, amdgpu_amdkfd_gpuvm_map_memory_to_gpu, amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/core/call.h"
#include "sim/core/dmabuf.h"
#include "sim/core/ledger.h"
#include "sim/kfd/amdgpu_bo.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/gpu_vm.h"
#include "sim/kfd/ipc_handles.h"

namespace understudy::kfd {

class KfdMemory {
 public:
  // `flags`: KFD_IOC_ALLOC_MEM_FLAGS_*. `file` may map the BO until this object goes.
  KfdMemory(BoRef bo, std::shared_ptr<AmdgpuFile> file, std::uint64_t address, std::uint32_t flags,
            bool imported);
  ~KfdMemory();
  KfdMemory(const KfdMemory&) = delete;

  const BoRef& bo() const { return bo_; }
  std::uint64_t address() const { return address_; }
  std::uint32_t flags() const { return flags_; }
  bool is_imported() const { return imported_; }
  // Bytes of address space: an AQL queue's pages appear twice.
  std::uint64_t mapped_size_bytes() const { return bo_->size_bytes() * (is_aql_queue() ? 2 : 1); }

  // Mapping where it is mapped already changes nothing.
  Result<void> map(Gpu& gpu, const std::shared_ptr<GpuVm>& vm);
  // EINVAL: not mapped there; EBUSY: a queue uses it.
  Result<void> unmap(GpuVm& vm);
  bool is_mapped() const;
  // Process tear-down: out of every page table.
  void unmap_everywhere();

  // The dma-buf of the first export, kept for later ones.
  DmaBufRef exported;
  // ROCm's IPC number of this memory, whether made or imported.
  IpcRef ipc;
  // Line of the ledger: "KFD handle ...".
  LedgerEntry entry;

 private:
  struct Attachment {
    std::shared_ptr<GpuVm> vm;
    std::uint64_t address = 0;
    bool mapped = false;
  };
  bool is_aql_queue() const;
  Result<void> attach(Gpu& gpu, const std::shared_ptr<GpuVm>& vm);

  const BoRef bo_;
  const std::shared_ptr<AmdgpuFile> file_;
  const std::uint64_t address_;
  const std::uint32_t flags_;
  const bool imported_;
  std::vector<Attachment> attachments_;
};

}  // namespace understudy::kfd
