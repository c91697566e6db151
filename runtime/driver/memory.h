// Memory, Share and DeviceMapping: the three ways a driver's object can be held.
//
//   Memory         owns physical memory. Made by Device::allocate, register_user_memory or import_dmabuf;
//   closed exactly
//                  once, by destroy() or else by its destructor. Held by shared_ptr.
//   Share          one device's right to use a Memory. It owns no physical memory, keeps the Memory alive,
//   and may own a
//                  driver handle that an import created. A *borrowed* share uses the Memory's own handle: no
//                  export, no import, nothing to close.
//   DeviceMapping  a Share placed at an address of that device.
//
// Each is destroyed before the one above it; the types keep references so that the order cannot be got wrong.
// Sizes and offsets are bytes. Errors are the kernel's errno. Calls on different objects may run
// concurrently; the owner of one object orders calls on it. Memory::export_dmabuf and cpu_source may be
// called from any thread.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "runtime/base/address_span.h"
#include "runtime/base/expected.h"
#include "runtime/base/unique_fd.h"

namespace hsa_rt {

class Device;

enum class Permission : uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };

constexpr Permission operator|(Permission a, Permission b) {
  return static_cast<Permission>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr bool allows_write(Permission permission) {
  return (static_cast<uint8_t>(permission) & static_cast<uint8_t>(Permission::kWrite)) != 0;
}

// Neither CPU nor GPU page tables can express write-only; such a mapping is readable as well.
constexpr int cpu_protection(Permission permission) {
  if (permission == Permission::kNone) return PROT_NONE;
  return allows_write(permission) ? PROT_READ | PROT_WRITE : PROT_READ;
}

// Two permissions that no page table tells apart.
constexpr bool same_in_page_tables(Permission a, Permission b) {
  return cpu_protection(a) == cpu_protection(b);
}

enum class Placement : uint8_t {
  kDevice,      // the device's own memory (VRAM); for devices without any, memory they reach best
  kHost,        // system memory
  kDeviceHeap,  // the device's private aperture: no address of the caller's choosing, not exportable
};

struct AllocationRequest {
  uint64_t size_bytes = 0;
  Placement placement = Placement::kDevice;
  // Non-zero: the memory is for this address on every device and nowhere else (pool memory), kPlacedByDevice
  // where only the device can choose it (Device::places_memory). Zero: it has no address until it is mapped,
  // and may be mapped many times (vmem).
  uint64_t bound_address = 0;
  static constexpr uint64_t kPlacedByDevice = UINT64_MAX;
  bool fine_grained = false;
  bool uncached = false;
  bool executable = false;
  bool contiguous = false;
};

// What the CPU maps (MAP_SHARED) to reach a Memory.
struct CpuSource {
  UniqueFd owned;  // set when the descriptor was made for this call
  int fd = -1;
  uint64_t file_offset = 0;
};

class Memory {
 public:
  Memory(Device& device, uint64_t size_bytes, Placement placement);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  Device& device() const { return device_; }
  uint64_t size_bytes() const { return size_bytes_; }
  Placement placement() const { return placement_; }
  // Unique among all memories this process ever had.
  uint64_t serial() const { return serial_; }

  // A new descriptor each time, read-write and close-on-exec (the first export decides the mode of all later
  // ones).
  virtual Result<UniqueFd> export_dmabuf() const = 0;
  // What to mmap for the bytes from `offset` on. EPERM: the CPU cannot reach this memory.
  virtual Result<CpuSource> cpu_source(uint64_t offset) const = 0;
  // Where devices see byte 0 of memory that the driver has placed itself (kDeviceHeap, kPlacedByDevice); 0
  // for all other memory. The driver keeps these addresses free of anything else.
  virtual uint64_t fixed_address() const { return 0; }

  // Closes and forgets the memory when `memory` is its last reference (EBUSY otherwise). If the driver
  // refuses, `memory` is left as it was, so that nothing is lost and the call can be repeated.
  static Result<void> destroy(std::shared_ptr<Memory>& memory);

 protected:
  // Gives the native object back to the kernel; a second call does nothing. Called by destroy() and by
  // destructors.
  virtual Result<void> close() = 0;

 private:
  Device& device_;
  const uint64_t size_bytes_;
  const Placement placement_;
  const uint64_t serial_;
};

class DeviceMapping {
 public:
  DeviceMapping() = default;
  DeviceMapping(const DeviceMapping&) = delete;
  DeviceMapping& operator=(const DeviceMapping&) = delete;
  virtual ~DeviceMapping() = default;  // unmaps if still mapped

  // On failure the former permission stays in force.
  virtual Result<void> set_permission(Permission permission) = 0;

  // Unmaps and forgets. On failure the mapping stays in force and `mapping` stays set.
  static Result<void> destroy(std::unique_ptr<DeviceMapping>& mapping);

 protected:
  virtual Result<void> unmap() = 0;
};

class Share {
 public:
  Share(std::shared_ptr<Memory> memory, bool borrowed) : memory_(std::move(memory)), borrowed_(borrowed) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  virtual ~Share() = default;

  const std::shared_ptr<Memory>& memory() const { return memory_; }
  bool borrowed() const { return borrowed_; }

  // Makes [offset, offset + span.size) of the memory usable by the device at span.base. A device that walks
  // the CPU's page tables takes note of the address at most; the result may then be null. The mapping must
  // not outlive the share. EINVAL: the addresses are taken on that device.
  virtual Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t offset,
                                                     Permission permission) = 0;

 private:
  const std::shared_ptr<Memory> memory_;
  const bool borrowed_;
};

}  // namespace hsa_rt
