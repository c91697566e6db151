#include "runtime/driver/kfd/render_file.h"

#include <string>

#include "runtime/driver/ioctl.h"
#include "uapi/amdgpu.h"

namespace hsa_rt::kfd {
namespace {

uint32_t page_flags(Permission permission) {
  return uapi::amdgpu::AMDGPU_VM_PAGE_READABLE | uapi::amdgpu::AMDGPU_VM_PAGE_EXECUTABLE |
         (allows_write(permission) ? uapi::amdgpu::AMDGPU_VM_PAGE_WRITEABLE : 0);
}

}  // namespace

Result<std::unique_ptr<RenderFile>> RenderFile::open(uint32_t render_minor) {
  return std::make_unique<RenderFile>(TRY(open_node("/dev/dri/renderD" + std::to_string(render_minor))));
}

Result<uint64_t> RenderFile::mmap_offset(const GemRef& gem) const {
  uapi::amdgpu::drm_amdgpu_gem_mmap args{};
  args.in.handle = gem.handle();
  TRY(driver_ioctl<uapi::amdgpu::GemMmap>(fd(), args));
  return args.out.addr_ptr;
}

Result<void> RenderFile::map(const GemRef& gem, const AddressSpan& span, uint64_t offset,
                             Permission permission) {
  return change_va(uapi::amdgpu::AMDGPU_VA_OP_MAP, gem, span, offset, page_flags(permission));
}

Result<void> RenderFile::remap(const GemRef& gem, const AddressSpan& span, uint64_t offset,
                               Permission permission) {
  return change_va(uapi::amdgpu::AMDGPU_VA_OP_REPLACE, gem, span, offset, page_flags(permission));
}

Result<void> RenderFile::unmap(const GemRef& gem, const AddressSpan& span) {
  return change_va(uapi::amdgpu::AMDGPU_VA_OP_UNMAP, gem, span, 0, 0);
}

Result<void> RenderFile::change_va(uint32_t operation, const GemRef& gem, const AddressSpan& span,
                                   uint64_t offset, uint32_t flags) {
  uapi::amdgpu::drm_amdgpu_gem_va args{};
  args.handle = gem.handle();
  args.operation = operation;
  args.flags = flags;
  args.va_address = span.base;
  args.offset_in_bo = offset;
  args.map_size = span.size;
  return driver_ioctl<uapi::amdgpu::GemVa>(fd(), args);
}

Result<RenderDeviceInfo> query_render_device(const RenderFile& file) {
  uapi::amdgpu::drm_amdgpu_info_device device{};
  uapi::amdgpu::drm_amdgpu_info args{};
  args.return_pointer = reinterpret_cast<uint64_t>(&device);
  args.return_size = sizeof(device);
  args.query = uapi::amdgpu::AMDGPU_INFO_DEV_INFO;
  TRY(driver_ioctl<uapi::amdgpu::Info>(file.fd(), args));
  return RenderDeviceInfo{device.family, device.pci_rev, uint64_t{device.gpu_counter_freq} * 1000};
}

}  // namespace hsa_rt::kfd
