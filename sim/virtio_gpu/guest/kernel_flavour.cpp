#include "sim/virtio_gpu/guest/kernel_flavour.h"

#include <algorithm>
#include <array>

#include "sim/virtio_gpu/guest/blob_ioctls.h"
#include "sim/virtio_gpu/guest/submit.h"
#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {
namespace {

namespace variants = guest_abi::variants;

// The driver's table; only two of the structs ever changed their size.
template <typename ExecbufferTag, typename BlobTag>
std::span<const IoctlRow> table() {
  static constexpr std::array kRows = {
      row<guest_abi::Map, &VirtioGpuFile::map>(),
      row<ExecbufferTag, &VirtioGpuFile::exec_buffer<typename ExecbufferTag::Args>>(),
      row<guest_abi::Getparam, &VirtioGpuFile::get_param>(),
      row<guest_abi::ResourceCreate, &VirtioGpuFile::resource_create>(),
      row<guest_abi::ResourceInfo, &VirtioGpuFile::resource_info>(),
      row<guest_abi::TransferFromHost, &VirtioGpuFile::transfer_from_host>(),
      row<guest_abi::TransferToHost, &VirtioGpuFile::transfer_to_host>(),
      row<guest_abi::Wait, &VirtioGpuFile::wait>(),
      row<guest_abi::GetCaps, &VirtioGpuFile::get_caps>(),
      row<BlobTag, &VirtioGpuFile::resource_create_blob<typename BlobTag::Args>>(),
      row<guest_abi::ContextInit, &VirtioGpuFile::context_init>(),
  };
  return kRows;
}

constexpr std::uint32_t kUpstreamFlags = guest_abi::VIRTGPU_BLOB_FLAG_USE_MAPPABLE |
                                         guest_abi::VIRTGPU_BLOB_FLAG_USE_SHAREABLE |
                                         guest_abi::VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE;
constexpr std::uint32_t kUserptrFlags =
    guest_abi::VIRTGPU_BLOB_FLAG_USE_USERPTR | variants::userptr_v4::VIRTGPU_BLOB_FLAG_USERPTR_RDONLY;
constexpr std::uint32_t kSvm = variants::rocm_2026::VIRTGPU_BLOB_FLAG_USE_SVM;

constexpr KernelFlavour kFlavours[] = {
    {.name = "6.1",
     .ioctls = &table<variants::linux_6_1::Execbuffer, variants::linux_6_1::ResourceCreateBlob>,
     .has_syncobjs = false,
     .has_debug_name = false,
     .blob_flags = kUpstreamFlags,
     .has_blob_hints = false,
     .imports_foreign_buffers = false,
     .userptr = UserptrKind::kNone,
     .svm_flag = 0},
    {.name = "6.12",
     .ioctls = &table<guest_abi::Execbuffer, variants::linux_6_12::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags,
     .has_blob_hints = false,
     .imports_foreign_buffers = false,
     .userptr = UserptrKind::kNone,
     .svm_flag = 0},
    {.name = "upstream",
     .ioctls = &table<guest_abi::Execbuffer, variants::blob_hints::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags,
     .has_blob_hints = true,
     .imports_foreign_buffers = true,
     .userptr = UserptrKind::kNone,
     .svm_flag = 0},
    {.name = "userptr-v5",
     .ioctls = &table<guest_abi::Execbuffer, variants::userptr_v4::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags | kUserptrFlags,
     .has_blob_hints = false,
     .imports_foreign_buffers = true,
     .userptr = UserptrKind::kPinned,
     .svm_flag = 0},
    {.name = "userptr-late",
     .ioctls = &table<guest_abi::Execbuffer, variants::userptr_v4::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags | kUserptrFlags,
     .has_blob_hints = false,
     .imports_foreign_buffers = true,
     .userptr = UserptrKind::kAccounted,
     .svm_flag = 0},
    {.name = "reference",
     .ioctls = &table<guest_abi::Execbuffer, guest_abi::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags | kUserptrFlags,
     .has_blob_hints = false,
     .imports_foreign_buffers = false,
     .userptr = UserptrKind::kDeduplicated,
     .svm_flag = 0},
    {.name = "rocm-2026",
     .ioctls = &table<guest_abi::Execbuffer, variants::rocm_2026::ResourceCreateBlob>,
     .has_syncobjs = true,
     .has_debug_name = true,
     .blob_flags = kUpstreamFlags | kUserptrFlags | kSvm,
     .has_blob_hints = false,
     .imports_foreign_buffers = true,
     .userptr = UserptrKind::kDeduplicated,
     .svm_flag = kSvm},
};

}  // namespace

std::span<const KernelFlavour> kernel_flavours() {
  return kFlavours;
}

const KernelFlavour* find_kernel_flavour(std::string_view name) {
  const auto found = std::ranges::find(kFlavours, name, &KernelFlavour::name);
  return found == std::end(kFlavours) ? nullptr : found;
}

}  // namespace understudy::virtio_gpu
