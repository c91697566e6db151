// The handler template of RESOURCE_CREATE_BLOB: from whichever struct the guest kernel has to BlobArguments
// and back.
//
// Owner: included by the ioctl tables. Units: bytes. Errors: create_blob's. Thread-safety: as VirtioGpuFile.
// Mirrors: the layouts of struct drm_virtgpu_resource_create_blob (uapi/virtgpu.json and its variants).
#pragma once

#include "sim/virtio_gpu/guest/virtio_gpu_file.h"

namespace understudy::virtio_gpu {

template <typename Args>
Outcome VirtioGpuFile::resource_create_blob(Call& call, Args& args) {
  BlobArguments blob{.blob_mem = args.blob_mem,
                     .blob_flags = args.blob_flags,
                     .size_bytes = args.size,
                     .command_bytes = args.cmd_size,
                     .command = args.cmd,
                     .blob_id = args.blob_id};
  if constexpr (requires { args.userptr; }) blob.userptr = args.userptr;
  if constexpr (requires { args.blob_userptr; }) blob.userptr = args.blob_userptr;
  if constexpr (requires { args.blob_svm; }) blob.svm = args.blob_svm;
  if constexpr (requires { args.blob_hints; }) blob.hints = args.blob_hints;

  const BlobAnswer answer = TRY(create_blob(call, blob));
  args.bo_handle = answer.bo_handle;
  args.res_handle = answer.resource_id;
  if constexpr (requires { args.offset; }) {
    if (answer.existed) args.offset = static_cast<std::int64_t>(answer.offset_bytes);
  }
  return answer.existed ? 1 : 0;
}

}  // namespace understudy::virtio_gpu
