// DrmFile: one open of a DRM node: its GEM handles, syncobjs and what the driver adds.
//
// Owner: FileTable. Drivers derive from it (AmdgpuFile, XdnaFile, VirtioGpuFile) and keep their per-open
// state there. Units: none. Errors: see dispatch. Thread-safety: parts lock themselves. Mirrors: struct
// drm_file.
#pragma once

#include <memory>
#include <string>

#include "sim/core/file.h"
#include "sim/drm/device.h"
#include "sim/drm/gem.h"
#include "sim/drm/mmap_grants.h"
#include "sim/drm/primary.h"

namespace understudy::drm {

class Syncobjs;

enum class NodeType : std::uint8_t { kPrimary, kRender, kAccel };

class DrmFile : public File {
 public:
  DrmFile(Device& device, NodeType type, std::string label, dev_t device_number);
  ~DrmFile() override;

  Device& device() const { return device_; }
  NodeType node_type() const { return type_; }
  GemHandles& handles() { return handles_; }
  // mmap() lets a file map what it has a handle of or was granted here.
  MmapGrants& mmap_grants() { return mmap_grants_; }
  Syncobjs& syncobjs() { return *syncobjs_; }
  PrimaryState& primary() { return primary_; }

  std::string label() const override { return label_; }
  dev_t device_number() const override { return device_number_; }
  // drm_ioctl.c: drm_ioctl, over the core table and device().driver_ioctls().
  void ioctl(const CallRef& call) override;
  // drm_gem.c: drm_gem_mmap.
  Result<MmapTarget> mmap(Call& call, const MmapRequest& request) override;
  // drm_read and drm_poll exist: without events, a read finds nothing and poll reports nothing.
  bool has_read() const override { return true; }
  // Closes handles and syncobjs (drm_file.c: drm_file_free).
  void release() override;

 private:
  bool permit(const Call& call, uapi::IoctlFlags flags);
  Device& device_;
  const NodeType type_;
  const std::string label_;
  const dev_t device_number_;
  GemHandles handles_;
  MmapGrants mmap_grants_;
  std::unique_ptr<Syncobjs> syncobjs_;
  PrimaryState primary_;
};

}  // namespace understudy::drm
