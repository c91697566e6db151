#include "runtime/driver/kfd/kfd_memory.h"

#include <fcntl.h>

#include <cerrno>

#include "runtime/base/persist.h"
#include "runtime/driver/ioctl.h"
#include "runtime/driver/kfd/kfd_device.h"
#include "uapi/kfd.h"

namespace hsa_rt::kfd {
namespace {

template <class Tag>
Result<void> change_mapping(KfdDevice& device, uint64_t handle) {
  const uint32_t gpu_id = device.gpu_id();
  typename Tag::Args args{};
  args.handle = handle;
  args.device_ids_array_ptr = reinterpret_cast<uint64_t>(&gpu_id);
  args.n_devices = 1;
  return driver_ioctl<Tag>(device.kfd_fd(), args);
}

class BoundMapping final : public DeviceMapping {
 public:
  BoundMapping(KfdDevice& device, uint64_t handle) : device_(device), handle_(handle) {}
  ~BoundMapping() override {
    persist([this] { return unmap(); });
  }

  // A KFD buffer has the permission it was allocated with.
  Result<void> set_permission(Permission) override { return Errno{EOPNOTSUPP}; }

 protected:
  Result<void> unmap() override {
    if (!mapped_) return {};
    TRY(change_mapping<uapi::kfd::UnmapMemoryFromGpu>(device_, handle_));
    mapped_ = false;
    return {};
  }

 private:
  KfdDevice& device_;
  const uint64_t handle_;
  bool mapped_ = true;
};

class BoundShare final : public Share {
 public:
  BoundShare(KfdDevice& accessor, std::shared_ptr<KfdMemory> memory)
      : Share(memory, true), accessor_(accessor), kfd_memory_(*memory) {}

  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t offset, Permission) override {
    if (span.base != kfd_memory_.bound_address() || offset != 0) return Errno{EINVAL};
    TRY(change_mapping<uapi::kfd::MapMemoryToGpu>(accessor_, kfd_memory_.handle()));
    return std::unique_ptr<DeviceMapping>(std::make_unique<BoundMapping>(accessor_, kfd_memory_.handle()));
  }

 private:
  KfdDevice& accessor_;
  KfdMemory& kfd_memory_;
};

class GemMapping final : public DeviceMapping {
 public:
  GemMapping(RenderFile& file, std::shared_ptr<GemRef> gem, AddressSpan span, uint64_t offset)
      : file_(file), gem_(std::move(gem)), span_(span), offset_(offset) {}
  ~GemMapping() override {
    persist([this] { return unmap(); });
  }

  Result<void> set_permission(Permission permission) override {
    return file_.remap(*gem_, span_, offset_, permission);
  }

 protected:
  Result<void> unmap() override {
    if (!mapped_) return {};
    TRY(file_.unmap(*gem_, span_));
    mapped_ = false;
    return {};
  }

 private:
  RenderFile& file_;
  const std::shared_ptr<GemRef> gem_;
  const AddressSpan span_;
  const uint64_t offset_;
  bool mapped_ = true;
};

class GemShare final : public Share {
 public:
  GemShare(RenderFile& file, std::shared_ptr<Memory> memory, std::shared_ptr<GemRef> gem, bool borrowed)
      : Share(std::move(memory), borrowed), file_(file), gem_(std::move(gem)) {}

  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t offset,
                                             Permission permission) override {
    TRY(file_.map(*gem_, span, offset, permission));
    return std::unique_ptr<DeviceMapping>(std::make_unique<GemMapping>(file_, gem_, span, offset));
  }

 private:
  RenderFile& file_;
  const std::shared_ptr<GemRef> gem_;
};

}  // namespace

KfdMemory::KfdMemory(KfdDevice& device, uint64_t size_bytes, Placement placement, Native native)
    : Memory(device, size_bytes, placement), device_(device), native_(native) {}

KfdMemory::~KfdMemory() {
  persist([this] { return close(); });
}

Result<UniqueFd> KfdMemory::export_dmabuf() const {
  uapi::kfd::kfd_ioctl_export_dmabuf_args args{};
  args.handle = native_.handle;
  args.flags = O_CLOEXEC;
  TRY(driver_ioctl<uapi::kfd::ExportDmabuf>(device_.kfd_fd(), args));
  return UniqueFd(static_cast<int>(args.dmabuf_fd));
}

Result<CpuSource> KfdMemory::cpu_source(uint64_t offset) const {
  if (!native_.cpu_visible) return Errno{EPERM};
  // The render node finds a buffer by the exact start of its offset; only the dma-buf can be entered in the
  // middle.
  if (native_.mmap_offset != 0 && offset == 0)
    return CpuSource{{}, device_.render_file().fd(), native_.mmap_offset};
  CpuSource source;
  source.owned = TRY(export_dmabuf());
  source.fd = source.owned.get();
  source.file_offset = offset;
  return source;
}

Result<std::shared_ptr<GemRef>> KfdMemory::own_gem() {
  const std::lock_guard guard(gem_lock_);
  if (gem_ == nullptr) {
    const UniqueFd dmabuf = TRY(export_dmabuf());
    gem_ = TRY(device_.render_file().import_dmabuf(dmabuf.get()));
  }
  return gem_;
}

Result<void> KfdMemory::close() {
  if (!open_) return {};
  gem_.reset();
  uapi::kfd::kfd_ioctl_free_memory_of_gpu_args args{};
  args.handle = native_.handle;
  TRY(driver_ioctl<uapi::kfd::FreeMemoryOfGpu>(device_.kfd_fd(), args));
  open_ = false;
  return {};
}

GemMemory::GemMemory(KfdDevice& device, uint64_t size_bytes, Placement placement, std::shared_ptr<GemRef> gem,
                     bool cpu_visible)
    : Memory(device, size_bytes, placement),
      device_(device),
      gem_(std::move(gem)),
      cpu_visible_(cpu_visible) {}

Result<UniqueFd> GemMemory::export_dmabuf() const {
  return device_.render_file().export_dmabuf(*gem_);
}

Result<CpuSource> GemMemory::cpu_source(uint64_t offset) const {
  if (!cpu_visible_) return Errno{EPERM};
  if (offset == 0)
    return CpuSource{{}, device_.render_file().fd(), TRY(device_.render_file().mmap_offset(*gem_))};
  CpuSource source;
  source.owned = TRY(export_dmabuf());
  source.fd = source.owned.get();
  source.file_offset = offset;
  return source;
}

Result<void> GemMemory::close() {
  return GemRef::release(gem_);
}

std::unique_ptr<Share> share_bound(KfdDevice& accessor, std::shared_ptr<KfdMemory> memory) {
  return std::make_unique<BoundShare>(accessor, std::move(memory));
}

std::unique_ptr<Share> share_gem(KfdDevice& accessor, std::shared_ptr<Memory> memory,
                                 std::shared_ptr<GemRef> gem, bool borrowed) {
  return std::make_unique<GemShare>(accessor.render_file(), std::move(memory), std::move(gem), borrowed);
}

}  // namespace hsa_rt::kfd
