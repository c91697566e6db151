// One NPU: its accel file, the device heap, and the buffers its commands may name.
//
// The heap is a range of the process's addresses that stands for the device's own aperture. The kernel hands
// it out in chunks of 64 MiB, wants each mapped before use and all of them side by side; chunks are added
// when the kernel says that the heap is too small, and never taken back.
//
// Owner: XdnaDriver. Thread-safe.
// Mirrors: drivers/accel/amdxdna/amdxdna_gem.c, aie2_pci.c.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/drm/drm_file.h"
#include "runtime/driver/xdna/residency.h"
#include "runtime/driver/xdna/xdna_memory.h"

namespace hsa_rt::xdna {

class XdnaDriver;

struct BufferInfo {
  uint64_t map_offset = 0;
  uint64_t address = 0;  // of the process
  uint64_t device_address = 0;
};

class XdnaDevice final : public Device {
 public:
  static Result<std::unique_ptr<XdnaDevice>> create(XdnaDriver& driver, std::unique_ptr<drm::DrmFile> file,
                                                    int minor, uint32_t node_id);

  XdnaDevice(XdnaDriver& driver, std::unique_ptr<drm::DrmFile> file, DeviceInfo info,
             uint64_t heap_max_bytes);

  Driver& driver() const override;
  const DeviceInfo& info() const override { return info_; }
  bool shares_cpu_page_tables() const override { return true; }

  Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) override;
  Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) override;
  Result<std::shared_ptr<Memory>> register_user_memory(const AddressSpan& host,
                                                       uint64_t device_address) override;
  Result<std::unique_ptr<CommandContext>> create_command_context() override;

  Result<std::shared_ptr<Memory>> adopt(int dmabuf_fd);

  drm::DrmFile& file() { return *file_; }
  ResidencyTable& residency() { return residency_; }
  uint32_t core_tiles() const { return info_.compute_units; }
  Result<BufferInfo> buffer_info(const drm::GemRef& gem) const;
  // A buffer of the kernel's type `type`.
  Result<std::shared_ptr<drm::GemRef>> create_buffer(uint32_t type, uint64_t size_bytes);
  // Makes sure that there is a heap: contexts need one even if nothing is allocated from it.
  Result<void> ensure_heap();

 private:
  Result<std::shared_ptr<Memory>> allocate_from_heap(uint64_t size_bytes);
  Result<void> grow_heap();

  XdnaDriver& driver_;
  const std::unique_ptr<drm::DrmFile> file_;
  const DeviceInfo info_;
  const uint64_t heap_max_bytes_;
  ResidencyTable residency_;

  std::mutex heap_lock_;
  ReservedRange heap_range_;
  std::vector<std::shared_ptr<drm::GemRef>> heap_chunks_;
  size_t heap_mapped_ = 0;  // how many of them
};

}  // namespace hsa_rt::xdna
