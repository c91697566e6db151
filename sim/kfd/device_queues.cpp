#include "sim/kfd/device_queues.h"

namespace understudy::kfd {
namespace {

constexpr unsigned kMaxQueuesPerDevice = 4096;  // max_num_of_queues_per_device

}  // namespace

DeviceQueues::DeviceQueues(const GpuProfile& profile)
    : pcie_engines_(static_cast<unsigned>(profile.property("num_sdma_engines"))),
      xgmi_engines_(static_cast<unsigned>(profile.property("num_sdma_xgmi_engines"))),
      slots_per_engine_(static_cast<unsigned>(profile.property("num_sdma_queues_per_engine"))),
      taken_(pcie_engines_ + xgmi_engines_, std::vector<bool>(slots_per_engine_)) {}

Result<void> DeviceQueues::add_queue() {
  const std::lock_guard lock(mutex_);
  if (queue_count_ >= kMaxQueuesPerDevice) return Errno(EPERM);
  ++queue_count_;
  return {};
}

void DeviceQueues::remove_queue() {
  const std::lock_guard lock(mutex_);
  --queue_count_;
}

Result<SdmaSlot> DeviceQueues::take_sdma_slot(SdmaChoice choice, unsigned engine) {
  const std::lock_guard lock(mutex_);
  switch (choice) {
    case SdmaChoice::kPcie:
      return take_from(0, pcie_engines_);
    case SdmaChoice::kXgmi:
      return take_from(pcie_engines_, xgmi_engines_);
    case SdmaChoice::kByEngine:
      return take_from(engine, 1);
  }
  return Errno(EINVAL);
}

// Spreads over the engines before a second queue goes to any of them.
Result<SdmaSlot> DeviceQueues::take_from(unsigned first_engine, unsigned engine_count) {
  for (unsigned queue = 0; queue < slots_per_engine_; ++queue) {
    for (unsigned engine = first_engine; engine < first_engine + engine_count; ++engine) {
      if (taken_[engine][queue]) continue;
      taken_[engine][queue] = true;
      return SdmaSlot{engine, queue};
    }
  }
  return Errno(ENOMEM);
}

void DeviceQueues::give_back(SdmaSlot slot) {
  const std::lock_guard lock(mutex_);
  taken_[slot.engine][slot.queue_on_engine] = false;
}

}  // namespace understudy::kfd
