// NPU buffers: shared ones, which any address of the process can be mapped to; pieces of the device heap,
// which are where the heap is; registered user memory; and imports. In each case the object owns one counted
// GEM handle, and close() gives up that one, so an import that the kernel answered with the allocation's own
// handle cannot close it twice.
#pragma once

#include <memory>

#include "runtime/driver/drm/drm_file.h"
#include "runtime/driver/memory.h"

namespace hsa_rt::xdna {

class XdnaDevice;

class XdnaMemory final : public Memory {
 public:
  struct Native {
    std::shared_ptr<drm::GemRef> gem;
    uint64_t map_offset = 0;  // on the accel node; 0: it cannot be mapped there
    AddressSpan
        fixed_span;  // heap and user memory: where it stands in the process; size 0 for all other memory
    uint64_t device_address = 0;  // heap: of its first byte
  };

  XdnaMemory(XdnaDevice& device, uint64_t size_bytes, Placement placement, Native native);
  ~XdnaMemory() override;

  Result<UniqueFd> export_dmabuf() const override;
  Result<CpuSource> cpu_source(uint64_t offset) const override;
  uint64_t fixed_address() const override {
    return placement() == Placement::kDeviceHeap ? native_.fixed_span.base : 0;
  }

  const std::shared_ptr<drm::GemRef>& gem() const { return native_.gem; }

 protected:
  Result<void> close() override;

 private:
  XdnaDevice& device_;
  Native native_;
};

// `gem` is the memory's handle in the accessor's file.
std::unique_ptr<Share> share_with_npu(XdnaDevice& accessor, std::shared_ptr<Memory> memory,
                                      std::shared_ptr<drm::GemRef> gem, bool borrowed);

}  // namespace hsa_rt::xdna
