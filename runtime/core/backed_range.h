// BackedRange: a range wholly filled with memory made for exactly these addresses, which are reserved here
// or, where the device places memory itself, by its driver. What pool allocations, imported buffers and the
// runtime's own shared structures (signals, queues) are made of.
//
// Not thread-safe; the owner orders access changes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/reserved_range.h"
#include "runtime/core/mapped_range.h"

namespace hsa_rt {

class BackedRange {
 public:
  // `request.bound_address` is chosen here or by the device. `size_bytes` is a page multiple.
  static Result<std::unique_ptr<BackedRange>> allocate(Device& backing, AllocationRequest request,
                                                       std::span<const AccessRequest> access);
  // The memory behind a dma-buf, from the first of `drivers` that knows it. ENODEV: none does.
  static Result<std::unique_ptr<BackedRange>> import(std::span<const std::shared_ptr<Driver>> drivers,
                                                     int dmabuf_fd, std::span<const AccessRequest> access);
  // The caller's own pages, reached by `device` (and others of its driver) at the new range's addresses. The
  // CPU has no business there.
  static Result<std::unique_ptr<BackedRange>> register_user_memory(Device& device, const AddressSpan& host,
                                                                   std::span<const AccessRequest> access);

  BackedRange(ReservedRange reserved, std::shared_ptr<Memory> memory);
  BackedRange(const BackedRange&) = delete;
  BackedRange& operator=(const BackedRange&) = delete;
  ~BackedRange() { range_.abandon(); }

  const AddressSpan& span() const { return range_.span(); }
  void* data() const { return range_.span().pointer(); }
  const MappedRange& range() const { return range_; }

  Result<void> set_access(std::span<const AccessRequest> access);
  // Takes all access away and closes the memory. On failure everything stays as it was and may be tried
  // again.
  static Result<void> destroy(std::unique_ptr<BackedRange>& range);

 private:
  static Result<std::unique_ptr<BackedRange>> finish(ReservedRange reserved, std::shared_ptr<Memory> memory,
                                                     std::span<const AccessRequest> access);

  ReservedRange reserved_;  // empty: the driver's
  MappedRange range_;
};

}  // namespace hsa_rt
