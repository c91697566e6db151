#include "sim/kfd/ipc_handles.h"

#include <sys/random.h>

#include <cstdlib>

namespace understudy::kfd {

IpcRef IpcHandles::insert(DmaBufRef dma_buf, std::uint32_t flags) {
  auto object = std::make_shared<IpcObject>();
  object->dma_buf = std::move(dma_buf);
  object->flags = flags;
  // Not from the machine's seed: knowing the number is all the permission there is.
  if (::getrandom(object->share_handle.data(), sizeof(ShareHandle), 0) != sizeof(ShareHandle)) std::abort();
  const std::lock_guard lock(mutex_);
  std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
  objects_[object->share_handle] = object;
  return object;
}

IpcRef IpcHandles::find(const ShareHandle& share_handle) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(share_handle);
  return found == objects_.end() ? nullptr : found->second.lock();
}

}  // namespace understudy::kfd
