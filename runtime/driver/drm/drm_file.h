// One open file of a DRM device, and the GEM handles in it.
//
// PRIME gives the same handle for the same buffer without counting, and one GEM_CLOSE takes it from
// everybody; so this class counts. GemRef is one counted use, whether the handle came from an allocation or
// from an import. Importing and closing happen under one lock, or a close could take a handle that another
// thread was just given.
//
// Owner: the driver's device object. Errors: errno of the DRM ioctls. Thread-safe.
// Mirrors: drivers/gpu/drm/drm_prime.c, drivers/gpu/drm/drm_gem.c.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/driver/memory.h"

namespace hsa_rt::drm {

class DrmFile;

// One counted use of a GEM handle of a DrmFile. Must not outlive it.
class GemRef {
 public:
  GemRef(DrmFile& file, uint32_t handle) : file_(file), handle_(handle) {}
  GemRef(const GemRef&) = delete;
  GemRef& operator=(const GemRef&) = delete;
  ~GemRef();

  uint32_t handle() const { return handle_; }

  // Gives up this use if it is the only holder of it. When the kernel refuses to close the handle, `ref`
  // stays as it was.
  static Result<void> release(std::shared_ptr<GemRef>& ref);

 private:
  DrmFile& file_;
  const uint32_t handle_;
  bool held_ = true;
};

class DrmFile {
 public:
  static Result<UniqueFd> open_node(const std::string& path);

  explicit DrmFile(UniqueFd fd) : fd_(std::move(fd)) {}
  DrmFile(const DrmFile&) = delete;
  DrmFile& operator=(const DrmFile&) = delete;

  int fd() const { return fd_.get(); }

  // The driver's name as VERSION reports it.
  Result<std::string> driver_name() const;

  // A handle that a driver ioctl has just made in this file.
  std::shared_ptr<GemRef> adopt(uint32_t handle);
  Result<std::shared_ptr<GemRef>> import_dmabuf(int dmabuf_fd);
  // The same for a memory of another file. As long as anybody here uses it, it is exported and imported only
  // once.
  Result<std::shared_ptr<GemRef>> import_memory(const Memory& memory);
  Result<UniqueFd> export_dmabuf(const GemRef& gem) const;

 private:
  friend class GemRef;

  void drop(uint32_t handle);
  Result<void> try_drop(uint32_t handle);
  // All three require lock_.
  Result<void> close_handle(uint32_t handle);
  void close_refused();
  std::shared_ptr<GemRef> count(uint32_t handle);

  const UniqueFd fd_;
  std::mutex lock_;
  std::map<uint32_t, uint64_t> use_count_;  // by GEM handle
  std::vector<uint32_t> refused_;           // unused handles whose GEM_CLOSE failed, to be tried again

  std::mutex imports_lock_;
  std::map<uint64_t, std::weak_ptr<GemRef>> imports_;  // by Memory::serial()
};

}  // namespace hsa_rt::drm
