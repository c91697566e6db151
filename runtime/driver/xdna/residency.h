// Which buffer stands behind an address of the process, for one NPU. A command names its operands by address,
// but the kernel wants the buffers listed, so that it keeps them in place while the command runs.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/address_span.h"
#include "runtime/driver/drm/drm_file.h"

namespace hsa_rt::xdna {

struct ResidentBuffer {
  AddressSpan span;  // where the process sees it
  std::shared_ptr<drm::GemRef> gem;
  uint64_t memory_serial = 0;   // tells a buffer from a later one with the same handle
  uint64_t device_address = 0;  // of span.base on the device; 0: the same as the process's

  uint64_t to_device(uint64_t address) const {
    return device_address == 0 ? address : device_address + (address - span.base);
  }
};

class ResidencyTable {
 public:
  void add(ResidentBuffer buffer);
  void remove(uint64_t base);
  std::optional<ResidentBuffer> find(uint64_t address) const;

 private:
  mutable std::mutex lock_;
  std::multimap<uint64_t, ResidentBuffer> buffers_;  // by span.base
};

}  // namespace hsa_rt::xdna
