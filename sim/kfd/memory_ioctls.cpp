// KfdFile's handlers for memory: ACQUIRE_VM, ALLOC/FREE, MAP/UNMAP. Mirrors amdkfd/kfd_chardev.c and
// amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu.
#include <algorithm>
#include <string>

#include "sim/kfd/kfd_file.h"
#include "sim/kfd/mmap_offset.h"
#include "uapi/amdgpu.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPageMask = kPageBytes - 1;
// kmalloc_array() of more device ids than this fails.
constexpr std::uint32_t kMaxDeviceIds = 4 * 1024 * 1024 / sizeof(std::uint32_t);

// Kind bits in the order the kernel tests them; the first that is set wins.
Result<BoKind> kind_of(std::uint32_t flags) {
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) return BoKind::kVram;
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT) return BoKind::kGtt;
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) return BoKind::kUserptr;
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) return BoKind::kDoorbell;
  if (flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) return BoKind::kMmio;
  return Errno(EINVAL);
}

// The handler's own checks of sizes, made before the kind is looked at as a whole.
Result<void> check_bus_memory_size(const kfd_ioctl_alloc_memory_of_gpu_args& args) {
  if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
    if (args.size != KfdProcess::kDoorbellSliceBytes) return Errno(EINVAL);
  } else if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
    if (args.size != kPageBytes) return Errno(EINVAL);
  }
  return {};
}

Result<std::uint64_t> backing_size(const kfd_ioctl_alloc_memory_of_gpu_args& args) {
  const bool is_aql_queue = (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM) != 0;
  const std::uint64_t size_bytes = is_aql_queue ? args.size / 2 : args.size;
  if (size_bytes == 0) return Errno(EINVAL);
  if (size_bytes > ~kPageMask) return Errno(ENOMEM);
  return (size_bytes + kPageMask) & ~kPageMask;
}

Result<BoSpec> spec_for(const kfd_ioctl_alloc_memory_of_gpu_args& args, const ClientRef& client,
                        ProcessDevice& device) {
  using namespace uapi::amdgpu;
  BoSpec spec;
  spec.kind = TRY(kind_of(args.flags));
  switch (spec.kind) {
    case BoKind::kVram:
      if (device.gpu.prefers_gtt()) {
        spec.kind = BoKind::kGtt;
        spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
        break;
      }
      spec.gem_domains = AMDGPU_GEM_DOMAIN_VRAM;
      spec.gem_flags = AMDGPU_GEM_CREATE_VRAM_CLEARED;
      if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)
        spec.gem_flags |= AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
      break;
    case BoKind::kUserptr:
      if (args.mmap_offset == 0) return Errno(EINVAL);
      spec.user_client = client;
      spec.user_address = args.mmap_offset & ~kPageMask;
      spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
      break;
    case BoKind::kDoorbell:
      spec.pages = device.ensure_doorbells();
      spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
      break;
    case BoKind::kMmio:
      spec.pages = device.ensure_mmio_page();
      spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
      break;
    case BoKind::kGtt:
    case BoKind::kForeign:
      spec.gem_domains = AMDGPU_GEM_DOMAIN_GTT;
      break;
  }
  spec.size_bytes = TRY(backing_size(args));
  return spec;
}

// Neither the GPU's addresses nor a userptr's pages may be registered as shared virtual memory. VRAM without
// an address is exempt.
Result<void> check_against_svm(KfdProcess& process, const kfd_ioctl_alloc_memory_of_gpu_args& args) {
  if (process.is_secondary()) {
    if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) return Errno(EOPNOTSUPP);
    return {};
  }
  const bool addressless = args.va_addr == 0 && (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
  if (!addressless && process.svm().overlaps(args.va_addr, args.size)) return Errno(EADDRINUSE);
  if ((args.flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) && process.svm().overlaps(args.mmap_offset, args.size)) {
    return Errno(EADDRINUSE);
  }
  return {};
}

// The ids MAP and UNMAP work through, from n_success on.
template <typename Args>
Result<std::vector<std::uint32_t>> read_device_ids(Call& call, const Args& args) {
  if (args.n_devices == 0 || args.n_success > args.n_devices) return Errno(EINVAL);
  if (args.n_devices > kMaxDeviceIds) return Errno(ENOMEM);
  return call.memory().read_array<std::uint32_t>(args.device_ids_array_ptr, args.n_devices);
}

}  // namespace

Outcome KfdFile::acquire_vm(Call& call, kfd_ioctl_acquire_vm_args& args) {
  const auto file = call.machine().files().by_client_fd(call.client(), static_cast<int>(args.drm_fd));
  if (!file && file.error() == Errno(EBADF)) return Errno(EINVAL);
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  const auto amdgpu_file = file ? std::dynamic_pointer_cast<AmdgpuFile>(file.value()) : nullptr;
  if (device.file) return device.file == amdgpu_file ? Outcome(0) : Outcome(Errno(EBUSY));
  if (!amdgpu_file) return Errno(EINVAL);
  TRY(amdgpu_file->make_compute_vm(process().key()));
  amdgpu_file->hold();
  device.file = amdgpu_file;
  char text[64];
  std::snprintf(text, sizeof text, "%x %.15s", call.client().pid(), call.client().name().c_str());
  driver_->smi_events(device.gpu).report(0, KFD_SMI_EVENT_PROCESS_START, text);
  return 0;
}

Outcome KfdFile::alloc_memory_of_gpu(Call& call, kfd_ioctl_alloc_memory_of_gpu_args& args) {
  if (args.size == 0) return Errno(EINVAL);
  TRY(check_against_svm(process(), args));
  const std::lock_guard lock(process().mutex());
  ProcessDevice& device = *TRY(process().device(args.gpu_id));
  constexpr std::uint32_t kPublicVram = KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
  if ((args.flags & kPublicVram) == kPublicVram && !device.gpu.is_large_bar()) return Errno(EINVAL);
  TRY(device.vm());
  TRY(check_bus_memory_size(args));
  const BoSpec spec = TRY(spec_for(args, process().client(), device));
  const BoRef bo = TRY(AmdgpuBo::create(device.gpu, &call, spec));

  auto memory = std::make_shared<KfdMemory>(bo, device.file, args.va_addr, args.flags, /*imported=*/false);
  const auto index = device.memory.allocate(memory);
  if (!index) return Errno(EFAULT);
  const KfdHandle handle{args.gpu_id, *index};
  memory->entry = open_ledger_line(call, handle, *bo);
  if (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) device.vram_usage_bytes += spec.size_bytes;

  args.handle = handle.value();
  args.mmap_offset =
      spec.kind == BoKind::kMmio ? MmapOffset{MmapType::kMmio, args.gpu_id}.value() : bo->mmap_offset_bytes();
  return 0;
}

Outcome KfdFile::free_memory_of_gpu(Call& call, kfd_ioctl_free_memory_of_gpu_args& args) {
  std::optional<std::shared_ptr<KfdMemory>> freed;  // goes after unlocking
  const std::lock_guard lock(process().mutex());
  const KfdHandle handle = KfdHandle::from(args.handle);
  if (process().has_signal_handle && process().signal_handle.value() == handle.value()) return Errno(EPERM);
  ProcessDevice& device = *TRY(process().device(handle.gpu_id));
  const auto memory = process().memory(handle);
  if (!memory) {
    note_unknown_handle(call, handle);
    return Errno(EINVAL);
  }
  if (memory->is_mapped()) return Errno(EBUSY);
  memory->entry.close(&call);
  call.machine().ledger().note_destroyed(ledger_key(handle), &call);
  if ((memory->flags() & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !memory->is_imported()) {
    device.vram_usage_bytes -= memory->bo()->size_bytes();
  }
  freed = device.memory.remove(handle.index);
  return 0;
}

Outcome KfdFile::map_memory_to_gpu(Call& call, kfd_ioctl_map_memory_to_gpu_args& args) {
  const auto ids = TRY(read_device_ids(call, args));
  const std::lock_guard lock(process().mutex());
  const KfdHandle handle = KfdHandle::from(args.handle);
  TRY(TRY(process().device(handle.gpu_id))->vm());
  const auto memory = process().memory(handle);
  if (!memory) return Errno(ENOMEM);
  for (std::uint32_t index = args.n_success; index < args.n_devices; ++index) {
    ProcessDevice& peer = *TRY(process().device(ids[index]));
    TRY(memory->map(peer.gpu, TRY(peer.vm())));
    args.n_success = index + 1;
  }
  return 0;
}

Outcome KfdFile::unmap_memory_from_gpu(Call& call, kfd_ioctl_unmap_memory_from_gpu_args& args) {
  const auto ids = TRY(read_device_ids(call, args));
  const std::lock_guard lock(process().mutex());
  const KfdHandle handle = KfdHandle::from(args.handle);
  TRY(process().device(handle.gpu_id));
  const auto memory = process().memory(handle);
  if (!memory) return Errno(ENOMEM);
  for (std::uint32_t index = args.n_success; index < args.n_devices; ++index) {
    const ProcessDevice& peer = *TRY(process().device(ids[index]));
    if (!peer.file) return Errno(EINVAL);
    TRY(memory->unmap(*peer.file->vm()));
    args.n_success = index + 1;
  }
  return 0;
}

LedgerEntry KfdFile::open_ledger_line(Call& call, KfdHandle handle, const AmdgpuBo& bo) {
  char text[64];
  std::snprintf(text, sizeof text, "KFD handle %#llx, ", static_cast<unsigned long long>(handle.value()));
  return call.machine().ledger().open(ObjectKind::kKfdHandle, &call, text + bo.describe());
}

// Two names for one handle in the ledger: the process it belonged to and the number.
std::string KfdFile::ledger_key(KfdHandle handle) const {
  return "kfd#" + std::to_string(process().key()) + " handle " + std::to_string(handle.value());
}

// A handle that was freed before is worth telling the user about.
void KfdFile::note_unknown_handle(Call& call, KfdHandle handle) {
  Finding finding;
  finding.kind = FindingKind::kDoubleDestroy;
  if (!call.machine().ledger().was_destroyed(ledger_key(handle), &finding.first)) return;
  char text[64];
  std::snprintf(text, sizeof text, "KFD handle %#llx freed twice",
                static_cast<unsigned long long>(handle.value()));
  finding.text = text;
  finding.actor = Ledger::actor_of(&call);
  call.machine().ledger().report(std::move(finding));
}

}  // namespace understudy::kfd
