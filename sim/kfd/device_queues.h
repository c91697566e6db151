// DeviceQueues: what one GPU's scheduler counts across all processes: queues and SDMA slots.
//
// Owner: KfdDriver. Units: none. Errors: EPERM and ENOMEM as the scheduler's. Thread-safety: locks itself.
// Mirrors: amdkfd/kfd_device_queue_manager.c: create_queue_cpsch, allocate_sdma_queue.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/core/result.h"
#include "sim/kfd/profile.h"

namespace understudy::kfd {

struct SdmaSlot {
  unsigned engine = 0;  // PCIe engines first, then XGMI engines
  unsigned queue_on_engine = 0;
};

class DeviceQueues {
 public:
  explicit DeviceQueues(const GpuProfile& profile);

  unsigned sdma_engine_count() const { return pcie_engines_ + xgmi_engines_; }
  // EPERM when the device has as many queues as it can schedule.
  Result<void> add_queue();
  void remove_queue();

  enum class SdmaChoice : std::uint8_t { kPcie, kXgmi, kByEngine };
  // ENOMEM when every slot of the kind is taken. `engine` counts for kByEngine only.
  Result<SdmaSlot> take_sdma_slot(SdmaChoice choice, unsigned engine);
  void give_back(SdmaSlot slot);

 private:
  // Requires mutex_.
  Result<SdmaSlot> take_from(unsigned first_engine, unsigned engine_count);

  const unsigned pcie_engines_;
  const unsigned xgmi_engines_;
  const unsigned slots_per_engine_;
  std::mutex mutex_;
  unsigned queue_count_ = 0;
  std::vector<std::vector<bool>> taken_;  // [engine][queue on engine]
};

}  // namespace understudy::kfd
