#include "runtime/driver/driver.h"

#include <cerrno>

namespace hsa_rt {

Result<std::shared_ptr<Memory>> Device::register_user_memory(const AddressSpan&, uint64_t) {
  return Errno{EOPNOTSUPP};
}
Result<uint64_t> Device::available_memory_bytes() const {
  return Errno{EOPNOTSUPP};
}
Result<ClockCounters> Device::clock_counters() const {
  return Errno{EOPNOTSUPP};
}
Result<std::unique_ptr<AqlQueue>> Device::create_aql_queue(const AqlQueueRequest&) {
  return Errno{EOPNOTSUPP};
}
Result<std::unique_ptr<CopyEngine>> Device::create_copy_engine() {
  return Errno{EOPNOTSUPP};
}
Result<std::unique_ptr<CommandContext>> Device::create_command_context() {
  return Errno{EOPNOTSUPP};
}

Result<std::vector<uint8_t>> Driver::dmabuf_metadata(int) {
  return Errno{ENODEV};
}

}  // namespace hsa_rt
