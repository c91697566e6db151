// IpcHandles: buffers that ROCm's driver lets another process import by a 128-bit random number.
//
// Owner: KfdDriver. Units: none. Errors: none; an unknown number finds nothing. Thread-safety: locks itself.
// Mirrors: ROCm's out-of-tree amdkfd/kfd_ipc.c. A number lives as long as one KFD handle that exported or
// imported it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "sim/core/dmabuf.h"

namespace understudy::kfd {

using ShareHandle = std::array<std::uint32_t, 4>;

struct IpcObject {
  ShareHandle share_handle{};
  DmaBufRef dma_buf;
  std::uint32_t flags = 0;
};
using IpcRef = std::shared_ptr<const IpcObject>;

class IpcHandles {
 public:
  IpcRef insert(DmaBufRef dma_buf, std::uint32_t flags);
  IpcRef find(const ShareHandle& share_handle);  // null: unknown, or nobody holds it any more

 private:
  std::mutex mutex_;
  std::map<ShareHandle, std::weak_ptr<const IpcObject>> objects_;  // guarded by mutex_
};

}  // namespace understudy::kfd
