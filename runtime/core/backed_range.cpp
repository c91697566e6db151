#include "runtime/core/backed_range.h"

#include <unistd.h>

#include <cerrno>

namespace hsa_rt {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Large device memory is placed so that the GPU can use its large pages.
uint64_t alignment_for(const AllocationRequest& request) {
  return request.placement == Placement::kDevice && request.size_bytes >= kHugePageBytes ? kHugePageBytes
                                                                                         : kPageBytes;
}

// Where new memory of `device` goes; `reserved` stays empty when the device decides.
Result<uint64_t> choose_address(const Device& device, uint64_t size, uint64_t alignment,
                                ReservedRange& reserved) {
  if (device.places_memory()) return AllocationRequest::kPlacedByDevice;
  reserved = TRY(ReservedRange::reserve(size, alignment));
  return reserved.span().base;
}

AddressSpan span_of(const ReservedRange& reserved, const Memory& memory) {
  if (reserved.span().size != 0) return reserved.span();
  return {memory.fixed_address(), memory.size_bytes()};
}

}  // namespace

BackedRange::BackedRange(ReservedRange reserved, std::shared_ptr<Memory> memory)
    : reserved_(std::move(reserved)), range_(span_of(reserved_, *memory), memory, 0) {}

Result<std::unique_ptr<BackedRange>> BackedRange::allocate(Device& backing, AllocationRequest request,
                                                           std::span<const AccessRequest> access) {
  ReservedRange reserved;
  request.bound_address = TRY(choose_address(backing, request.size_bytes, alignment_for(request), reserved));
  std::shared_ptr<Memory> memory = TRY(backing.allocate(request));
  return finish(std::move(reserved), std::move(memory), access);
}

Result<std::unique_ptr<BackedRange>> BackedRange::import(std::span<const std::shared_ptr<Driver>> drivers,
                                                         int dmabuf_fd,
                                                         std::span<const AccessRequest> access) {
  // A dma-buf tells its size to whoever seeks to its end.
  const off_t end = ::lseek(dmabuf_fd, 0, SEEK_END);
  if (end <= 0) return Errno{end < 0 ? errno : EINVAL};
  uint64_t size = 0;
  if (!align_up(static_cast<uint64_t>(end), kPageBytes, size)) return Errno{EOVERFLOW};
  ReservedRange reserved = TRY(ReservedRange::reserve(size));
  for (const auto& driver : drivers) {
    Result<std::shared_ptr<Memory>> memory = driver->import_dmabuf(dmabuf_fd, reserved.span().base);
    if (memory) return finish(std::move(reserved), std::move(memory).value(), access);
    if (memory.error().value != ENODEV) return memory.error();
  }
  return Errno{ENODEV};
}

Result<std::unique_ptr<BackedRange>> BackedRange::register_user_memory(
    Device& device, const AddressSpan& host, std::span<const AccessRequest> access) {
  ReservedRange reserved;
  const uint64_t address = TRY(choose_address(device, host.size, kPageBytes, reserved));
  std::shared_ptr<Memory> memory = TRY(device.register_user_memory(host, address));
  return finish(std::move(reserved), std::move(memory), access);
}

Result<std::unique_ptr<BackedRange>> BackedRange::finish(ReservedRange reserved,
                                                         std::shared_ptr<Memory> memory,
                                                         std::span<const AccessRequest> access) {
  auto made = std::make_unique<BackedRange>(std::move(reserved), std::move(memory));
  TRY(made->set_access(access));
  return made;
}

Result<void> BackedRange::set_access(std::span<const AccessRequest> access) {
  AccessChange change(range_, access);
  TRY(change.apply());
  change.commit();
  return {};
}

Result<void> BackedRange::destroy(std::unique_ptr<BackedRange>& range) {
  const std::vector<AccessRequest> granted = range->range_.grants();
  TRY(range->set_access(range->range_.revoke_all()));
  std::shared_ptr<Memory> memory = range->range_.take_memory();
  const Result<void> closed = Memory::destroy(memory);
  if (!closed) {
    range->range_.put_memory(std::move(memory));
    (void)range->set_access(granted);
    return closed.error();
  }
  range.reset();
  return {};
}

}  // namespace hsa_rt
