// One GPU: its KFD identity and its render file.
//
// Owner: KfdDriver. Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/base/mapping.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/kfd/kfd_memory.h"
#include "runtime/driver/kfd/render_file.h"
#include "runtime/driver/kfd/topology.h"

namespace hsa_rt::kfd {

class KfdDriver;

class KfdDevice final : public Device {
 public:
  // Ties the render file's address space to this process's KFD state. Repeating that with the same file is
  // harmless.
  static Result<std::unique_ptr<KfdDevice>> create(KfdDriver& driver, const TopologyNode& node,
                                                   DeviceInfo info, std::shared_ptr<RenderFile> render_file);

  KfdDevice(KfdDriver& driver, const TopologyNode& node, DeviceInfo info,
            std::shared_ptr<RenderFile> render_file);

  Driver& driver() const override;
  const DeviceInfo& info() const override { return info_; }
  bool shares_cpu_page_tables() const override { return false; }

  Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) override;
  Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) override;
  Result<std::shared_ptr<Memory>> register_user_memory(const AddressSpan& host,
                                                       uint64_t device_address) override;
  Result<uint64_t> available_memory_bytes() const override;
  Result<ClockCounters> clock_counters() const override;
  Result<std::unique_ptr<AqlQueue>> create_aql_queue(const AqlQueueRequest& request) override;
  Result<std::unique_ptr<CopyEngine>> create_copy_engine() override;

  int kfd_fd() const;
  uint32_t gpu_id() const { return gpu_id_; }
  const Properties& properties() const { return properties_; }
  RenderFile& render_file() { return *render_file_; }

  // The address of the doorbell that CREATE_QUEUE named. The page is mapped once and stays mapped.
  Result<volatile uint64_t*> doorbell(uint64_t doorbell_offset);

  // `dmabuf_fd` as memory of this GPU (or reachable through it), with the size and placement the kernel
  // reported.
  Result<std::shared_ptr<Memory>> adopt(int dmabuf_fd, uint64_t size_bytes, Placement placement,
                                        uint64_t bound_address);

 private:
  Result<std::shared_ptr<Memory>> allocate_native(uint64_t size_bytes, Placement placement, uint32_t flags,
                                                  uint64_t bound_address, uint64_t user_address);

  KfdDriver& driver_;
  const uint32_t gpu_id_;
  const Properties properties_;
  const DeviceInfo info_;
  const std::shared_ptr<RenderFile> render_file_;
  bool local_memory_cpu_visible_ = false;

  std::mutex doorbells_lock_;
  Mapping doorbells_;
};

}  // namespace hsa_rt::kfd
