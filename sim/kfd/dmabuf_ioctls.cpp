// KfdFile's handlers that share memory: dma-bufs, and ROCm's IPC handles and copies between processes.
// Mirrors amdkfd/kfd_chardev.c, amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_gpuvm_import_dmabuf, and ROCm's
// kfd_ipc.c.
#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sim/kfd/kfd_file.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint32_t kPreferredDomains =
    uapi::amdgpu::AMDGPU_GEM_DOMAIN_VRAM | uapi::amdgpu::AMDGPU_GEM_DOMAIN_GTT;
constexpr std::uint32_t kImportedFlags =
    KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;

std::uint32_t kind_flag(const AmdgpuBo& bo) {
  const bool is_vram = (bo.spec().gem_domains & uapi::amdgpu::AMDGPU_GEM_DOMAIN_VRAM) != 0;
  return is_vram ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT;
}

// The first export makes the dma-buf, later ones share it.
Result<DmaBufRef> export_dma_buf(Call& call, KfdMemory& memory) {
  if (!memory.exported) {
    TRY(memory.bo()->may_export());
    memory.exported =
        TRY(memory.bo()->ensure_dma_buf(call, (memory.flags() & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE) != 0));
  }
  return memory.exported;
}

}  // namespace

// Requires the process's mutex.
Result<std::shared_ptr<KfdMemory>> KfdFile::import_memory(Call& call, ProcessDevice& device,
                                                          const DmaBufRef& dma_buf, std::uint64_t address,
                                                          std::uint64_t& handle_value) {
  TRY(device.vm());
  const BoRef bo = TRY(device.gpu.import_bo(call, dma_buf));
  if (!(bo->spec().gem_domains & kPreferredDomains)) return Errno(EINVAL);
  auto memory = std::make_shared<KfdMemory>(bo, device.file, address, kind_flag(*bo) | kImportedFlags,
                                            /*imported=*/true);
  memory->exported = dma_buf;
  const auto index = device.memory.allocate(memory);
  if (!index) return Errno(EFAULT);
  const KfdHandle handle{device.gpu.gpu_id(), *index};
  memory->entry = open_ledger_line(call, handle, *bo);
  handle_value = handle.value();
  return memory;
}

Outcome KfdFile::export_dmabuf(Call& call, kfd_ioctl_export_dmabuf_args& args) {
  UniqueFd descriptor;
  {
    const std::lock_guard lock(process().mutex());
    const KfdHandle handle = KfdHandle::from(args.handle);
    TRY(process().device(handle.gpu_id));
    const auto memory = process().memory(handle);
    if (!memory) return Errno(EINVAL);
    const DmaBufRef dma_buf = TRY(export_dma_buf(call, *memory));
    descriptor = TRY(dma_buf->open_descriptor());
  }
  const bool close_on_exec = (args.flags & O_CLOEXEC) != 0;
  return call.hand_fd(std::move(descriptor), offsetof(kfd_ioctl_export_dmabuf_args, dmabuf_fd),
                      close_on_exec);
}

// Before 6.8 the descriptor was looked at first.
Outcome KfdFile::import_dmabuf(Call& call, kfd_ioctl_import_dmabuf_args& args) {
  const auto dma_buf = call.machine().dmabufs().of_client_fd(call.client(), static_cast<int>(args.dmabuf_fd));
  if (kfd_minor() < kFirstMinorOf6_8 && !dma_buf) return dma_buf.error();
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  TRY(device.vm());
  TRY(import_memory(call, device, TRY(dma_buf), args.va_addr, args.handle));
  return 0;
}

Outcome KfdFile::get_dmabuf_info(Call& call, kfd_ioctl_get_dmabuf_info_args& args) {
  if (driver_->gpus().empty()) return Errno(EINVAL);
  const DmaBufRef dma_buf =
      TRY(call.machine().dmabufs().of_client_fd(call.client(), static_cast<int>(args.dmabuf_fd)));
  const auto bo = std::dynamic_pointer_cast<AmdgpuBo>(dma_buf->exporter());
  if (!bo || !(bo->spec().gem_domains & kPreferredDomains)) return Errno(EINVAL);
  args.size = bo->size_bytes();
  const BoMetadata metadata = bo->metadata();
  const std::uint32_t room_bytes = args.metadata_size;
  args.metadata_size = metadata.size_bytes;
  if (args.metadata_ptr != 0 && room_bytes < metadata.size_bytes) return Errno(EINVAL);
  args.gpu_id = bo->gpu().gpu_id();
  args.flags = kind_flag(*bo);
  if (bo->spec().gem_flags & uapi::amdgpu::AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED) {
    args.flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
  }
  if (args.metadata_ptr == 0 || metadata.size_bytes == 0) return 0;
  return call.memory().write(args.metadata_ptr, std::span(metadata.data).first(metadata.size_bytes));
}

Outcome KfdFile::ipc_export_handle(Call& call, uapi::kfd_rocm::kfd_ioctl_ipc_export_handle_args& args) {
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  TRY(device.vm());
  // Only the index counts; the GPU is the one named beside it.
  const auto* const found = device.memory.find(KfdHandle::from(args.handle).index);
  if (found == nullptr) return Errno(EINVAL);
  KfdMemory& memory = **found;
  if (!memory.ipc) memory.ipc = driver_->ipc_handles().insert(TRY(export_dma_buf(call, memory)), args.flags);
  std::copy(memory.ipc->share_handle.begin(), memory.ipc->share_handle.end(), args.share_handle);
  return 0;
}

Outcome KfdFile::ipc_import_handle(Call& call, uapi::kfd_rocm::kfd_ioctl_ipc_import_handle_args& args) {
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  ShareHandle share_handle;
  std::copy(std::begin(args.share_handle), std::end(args.share_handle), share_handle.begin());
  IpcRef object = driver_->ipc_handles().find(share_handle);
  if (!object) return Errno(EINVAL);
  const auto memory = TRY(import_memory(call, device, object->dma_buf, args.va_addr, args.handle));
  args.mmap_offset = memory->bo()->mmap_offset_bytes();
  args.flags = object->flags;
  memory->ipc = std::move(object);
  return 0;
}

namespace {

using uapi::kfd_rocm::kfd_memory_range;

constexpr std::uint64_t kMaxRanges = 64 * 1024;
constexpr std::size_t kBounceBytes = 1024 * 1024;

// Walks a list of address ranges of one process, piece by piece inside the BOs they lie in.
class RangeWalk {
 public:
  RangeWalk(KfdProcess& process, std::vector<kfd_memory_range> ranges)
      : process_(process), ranges_(std::move(ranges)) {}

  // The BO at the current position and how much of the current range is left. EFAULT: the range leaves its
  // BO.
  Result<void> settle() {
    while (index_ < ranges_.size() && offset_ == ranges_[index_].size) {
      ++index_;
      offset_ = 0;
      memory_.reset();
    }
    if (at_end() || memory_) return {};
    const auto& [address, size_bytes] = ranges_[index_];
    memory_ = process_.memory_at(address, size_bytes);
    if (!memory_) return Errno(EFAULT);
    return {};
  }
  bool at_end() const { return index_ >= ranges_.size(); }
  std::uint64_t left_in_range() const { return ranges_[index_].size - offset_; }
  const AmdgpuBo& bo() const { return *memory_->bo(); }
  std::uint64_t bo_offset() const {
    return (ranges_[index_].va_addr + offset_ - memory_->address()) % memory_->bo()->size_bytes();
  }
  void advance(std::uint64_t bytes) { offset_ += bytes; }

 private:
  KfdProcess& process_;
  const std::vector<kfd_memory_range> ranges_;
  std::size_t index_ = 0;
  std::uint64_t offset_ = 0;
  std::shared_ptr<KfdMemory> memory_;
};

Result<void> copy_ranges(RangeWalk& from, RangeWalk& to, std::uint64_t& copied) {
  std::vector<std::byte> bounce(kBounceBytes);
  for (;;) {
    TRY(from.settle());
    TRY(to.settle());
    if (from.at_end() || to.at_end()) return {};
    const std::uint64_t bytes =
        std::min({from.left_in_range(), to.left_in_range(), std::uint64_t{kBounceBytes},
                  from.bo().size_bytes() - from.bo_offset(), to.bo().size_bytes() - to.bo_offset()});
    const auto piece = std::span(bounce).first(bytes);
    if (from.bo().read_pages(from.bo_offset(), piece) < bytes) return Errno(EFAULT);
    if (to.bo().write_pages(to.bo_offset(), piece) < bytes) return Errno(EFAULT);
    from.advance(bytes);
    to.advance(bytes);
    copied += bytes;
  }
}

}  // namespace

Outcome KfdFile::cross_memory_copy(Call& call, uapi::kfd_rocm::kfd_ioctl_cross_memory_copy_args& args) {
  if (args.src_mem_range_array == 0 || args.dst_mem_range_array == 0 || args.src_mem_array_size == 0 ||
      args.dst_mem_array_size == 0) {
    return Errno(EINVAL);
  }
  args.bytes_copied = 0;
  if (args.src_mem_array_size > kMaxRanges || args.dst_mem_array_size > kMaxRanges) return Errno(ENOMEM);
  auto sources =
      TRY(call.memory().read_array<kfd_memory_range>(args.src_mem_range_array, args.src_mem_array_size));
  auto targets =
      TRY(call.memory().read_array<kfd_memory_range>(args.dst_mem_range_array, args.dst_mem_array_size));
  if (::kill(static_cast<pid_t>(args.pid), 0) != 0 && errno == ESRCH) return Errno(ESRCH);
  const auto remote = driver_->process_of_pid(static_cast<pid_t>(args.pid));
  if (!remote) return Errno(EINVAL);
  if (remote->client()->uid() != call.client().uid()) return Errno(EPERM);
  const bool writes = (args.flags & uapi::kfd_rocm::KFD_CROSS_MEMORY_RW_BIT) != 0;
  RangeWalk from(writes ? process() : *remote, std::move(sources));
  RangeWalk to(writes ? *remote : process(), std::move(targets));
  return copy_ranges(from, to, args.bytes_copied);
}

}  // namespace understudy::kfd
