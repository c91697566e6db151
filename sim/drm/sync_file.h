// SyncFile: a fence as a pollable descriptor; SyncobjFile: a syncobj as one.
//
// Owner: FileTable (made with make_descriptor). Units: ns. Errors: EINVAL/ENOTTY as the ioctls say.
// Thread-safety: immutable. Mirrors: dma-buf/sync_file.c; drm_syncobj.c: drm_syncobj_file_fops.
#pragma once

#include "sim/core/file.h"
#include "sim/drm/fence.h"
#include "sim/drm/syncobj.h"

namespace understudy {
class Machine;
}

namespace understudy::drm {

class SyncFile : public File {
 public:
  // `name`: given by SYNC_IOC_MERGE; otherwise the fence's own.
  explicit SyncFile(FenceRef fence, std::string name = {})
      : fence_(std::move(fence)), name_(std::move(name)) {}
  // A new descriptor that becomes readable (POLLIN) when the fence signals.
  static Result<UniqueFd> make_descriptor(Machine& machine, const FenceRef& fence, std::string name = {});
  // The fence behind a client's sync_file descriptor; EINVAL for anything else.
  static Result<FenceRef> of_client_fd(Call& call, int fd);

  std::string label() const override { return "sync_file"; }
  // SYNC_IOC_MERGE, SYNC_IOC_FILE_INFO.
  void ioctl(const CallRef& call) override;
  const FenceRef& fence() const { return fence_; }

 private:
  Result<void> merge(Call& call);
  Result<void> file_info(Call& call);
  std::string name() const;
  const FenceRef fence_;
  const std::string name_;
};

class SyncobjFile : public File {
 public:
  explicit SyncobjFile(SyncobjRef syncobj) : syncobj_(std::move(syncobj)) {}
  std::string label() const override { return "syncobj"; }
  void ioctl(const CallRef& call) override;
  const SyncobjRef& syncobj() const { return syncobj_; }

 private:
  const SyncobjRef syncobj_;
};

}  // namespace understudy::drm
