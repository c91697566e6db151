#include "runtime/driver/memory.h"

#include <cerrno>

namespace hsa_rt {

Result<void> Memory::destroy(std::shared_ptr<Memory>& memory) {
  if (memory.use_count() != 1) return Errno{EBUSY};
  TRY(memory->close());
  memory.reset();
  return {};
}

Result<void> DeviceMapping::destroy(std::unique_ptr<DeviceMapping>& mapping) {
  TRY(mapping->unmap());
  mapping.reset();
  return {};
}

}  // namespace hsa_rt
