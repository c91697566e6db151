#include "runtime/driver/memory.h"

#include <atomic>
#include <cerrno>

namespace hsa_rt {
namespace {

std::atomic<uint64_t> next_serial{1};

}  // namespace

Memory::Memory(Device& device, uint64_t size_bytes, Placement placement)
    : device_(device), size_bytes_(size_bytes), placement_(placement), serial_(next_serial.fetch_add(1)) {}

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
