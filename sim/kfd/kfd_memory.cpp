#include "sim/kfd/kfd_memory.h"

#include <algorithm>

#include "sim/kfd/gpu.h"
#include "uapi/kfd.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint32_t kBusMemory = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;

bool same_hive(const Gpu& a, const Gpu& b) {
  return a.placement().hive_id != 0 && a.placement().hive_id == b.placement().hive_id;
}

}  // namespace

KfdMemory::KfdMemory(BoRef bo, std::shared_ptr<AmdgpuFile> file, std::uint64_t address, std::uint32_t flags,
                     bool imported)
    : bo_(std::move(bo)), file_(std::move(file)), address_(address), flags_(flags), imported_(imported) {
  file_->mmap_grants().allow(*bo_);
}

KfdMemory::~KfdMemory() {
  file_->mmap_grants().revoke(*bo_);
}

bool KfdMemory::is_aql_queue() const {
  return (flags_ & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM) != 0;
}

// VRAM of another GPU is reached through its hive or its large BAR, doorbells and registers only through
// PCIe.
Result<void> KfdMemory::attach(Gpu& gpu, const std::shared_ptr<GpuVm>& vm) {
  if (address_ == 0) return Errno(EINVAL);
  const Gpu& owner = bo_->gpu();
  if (&gpu != &owner && !owner.is_large_bar()) {
    const bool is_vram = bo_->kind() == BoKind::kVram;
    if (is_vram && !same_hive(gpu, owner)) return Errno(EINVAL);
    if (flags_ & kBusMemory) return Errno(EINVAL);
  }
  attachments_.push_back({vm, address_});
  if (is_aql_queue()) attachments_.push_back({vm, address_ + bo_->size_bytes()});
  return {};
}

Result<void> KfdMemory::map(Gpu& gpu, const std::shared_ptr<GpuVm>& vm) {
  const auto attached = std::any_of(attachments_.begin(), attachments_.end(),
                                    [&](const Attachment& attachment) { return attachment.vm == vm; });
  if (!attached) TRY(attach(gpu, vm));
  for (Attachment& attachment : attachments_) {
    if (attachment.vm != vm || attachment.mapped) continue;
    GpuMapping mapping;
    mapping.start = attachment.address;
    mapping.size_bytes = bo_->size_bytes();
    mapping.bo = bo_;
    mapping.permissions.writable = (flags_ & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE) != 0;
    mapping.permissions.executable = (flags_ & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE) != 0;
    mapping.made_by_kfd = true;
    TRY(vm->map(std::move(mapping)));
    attachment.mapped = true;
  }
  return {};
}

Result<void> KfdMemory::unmap(GpuVm& vm) {
  bool found = false;
  for (const Attachment& attachment : attachments_) {
    if (attachment.vm.get() != &vm || !attachment.mapped) continue;
    found = true;
    const auto mapping = vm.find_start(attachment.address);
    if (mapping && mapping->queue_references > 0) return Errno(EBUSY);
  }
  if (!found) return Errno(EINVAL);
  for (Attachment& attachment : attachments_) {
    if (attachment.vm.get() != &vm || !attachment.mapped) continue;
    // A GEM_VA CLEAR or REPLACE of the render file may have taken it away already.
    (void)vm.unmap(*bo_, attachment.address, /*made_by_kfd=*/true);
    attachment.mapped = false;
  }
  return {};
}

bool KfdMemory::is_mapped() const {
  return std::any_of(attachments_.begin(), attachments_.end(),
                     [](const Attachment& attachment) { return attachment.mapped; });
}

void KfdMemory::unmap_everywhere() {
  for (Attachment& attachment : attachments_) {
    if (attachment.mapped) (void)attachment.vm->unmap(*bo_, attachment.address, /*made_by_kfd=*/true);
  }
  attachments_.clear();
}

}  // namespace understudy::kfd
