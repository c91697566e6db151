#include "runtime/driver/xdna/xdna_memory.h"

#include <cerrno>

#include "runtime/base/persist.h"
#include "runtime/driver/xdna/xdna_device.h"

namespace hsa_rt::xdna {
namespace {

// The NPU follows the process's page tables; all there is to do is to know the buffer by its address.
class NpuMapping final : public DeviceMapping {
 public:
  NpuMapping(XdnaDevice& device, uint64_t base) : device_(device), base_(base) {}
  ~NpuMapping() override { (void)unmap(); }

  Result<void> set_permission(Permission) override { return {}; }

 protected:
  Result<void> unmap() override {
    if (mapped_) device_.residency().remove(base_);
    mapped_ = false;
    return {};
  }

 private:
  XdnaDevice& device_;
  const uint64_t base_;
  bool mapped_ = true;
};

class NpuShare final : public Share {
 public:
  NpuShare(XdnaDevice& device, std::shared_ptr<Memory> memory, std::shared_ptr<drm::GemRef> gem,
           bool borrowed)
      : Share(std::move(memory), borrowed), device_(device), gem_(std::move(gem)) {}

  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t, Permission) override {
    device_.residency().add({span, gem_, memory()->serial(), 0});
    return std::unique_ptr<DeviceMapping>(std::make_unique<NpuMapping>(device_, span.base));
  }

 private:
  XdnaDevice& device_;
  const std::shared_ptr<drm::GemRef> gem_;
};

}  // namespace

XdnaMemory::XdnaMemory(XdnaDevice& device, uint64_t size_bytes, Placement placement, Native native)
    : Memory(device, size_bytes, placement), device_(device), native_(std::move(native)) {
  if (native_.fixed_span.size != 0) {
    device_.residency().add({native_.fixed_span, native_.gem, serial(), native_.device_address});
  }
}

XdnaMemory::~XdnaMemory() {
  persist([this] { return close(); });
}

Result<UniqueFd> XdnaMemory::export_dmabuf() const {
  return device_.file().export_dmabuf(*native_.gem);
}

Result<CpuSource> XdnaMemory::cpu_source(uint64_t offset) const {
  // The accel node finds a buffer by the exact start of its offset; only the dma-buf can be entered in the
  // middle.
  if (native_.map_offset != 0 && offset == 0) return CpuSource{{}, device_.file().fd(), native_.map_offset};
  CpuSource source;
  source.owned = TRY(export_dmabuf());
  source.fd = source.owned.get();
  source.file_offset = offset;
  return source;
}

Result<void> XdnaMemory::close() {
  if (native_.gem == nullptr) return {};
  if (native_.fixed_span.size != 0) device_.residency().remove(native_.fixed_span.base);
  native_.fixed_span = {};
  return drm::GemRef::release(native_.gem);
}

std::unique_ptr<Share> share_with_npu(XdnaDevice& accessor, std::shared_ptr<Memory> memory,
                                      std::shared_ptr<drm::GemRef> gem, bool borrowed) {
  return std::make_unique<NpuShare>(accessor, std::move(memory), std::move(gem), borrowed);
}

}  // namespace hsa_rt::xdna
