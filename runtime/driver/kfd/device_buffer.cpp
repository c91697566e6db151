#include "runtime/driver/kfd/device_buffer.h"

#include <cerrno>

#include "runtime/driver/kfd/kfd_device.h"

namespace hsa_rt::kfd {

Result<DeviceBuffer> DeviceBuffer::create(KfdDevice& device, AllocationRequest request,
                                          std::span<KfdDevice* const> map_to, bool cpu_access) {
  if (!align_up(request.size_bytes, kPageBytes, request.size_bytes)) return Errno{ENOMEM};
  DeviceBuffer buffer;
  buffer.range_ = TRY(ReservedRange::reserve(request.size_bytes));
  request.bound_address = buffer.address();
  buffer.memory_ = TRY(device.allocate(request));
  if (cpu_access) {
    const CpuSource source = TRY(buffer.memory_->cpu_source(0));
    TRY(place_file(buffer.range_.span(), PROT_READ | PROT_WRITE, source.fd, source.file_offset));
  }
  for (KfdDevice* accessor : map_to) {
    Access access;
    access.share = TRY(accessor->attach(buffer.memory_));
    access.mapping = TRY(access.share->map(buffer.range_.span(), 0, Permission::kReadWrite));
    buffer.access_.push_back(std::move(access));
  }
  return buffer;
}

}  // namespace hsa_rt::kfd
