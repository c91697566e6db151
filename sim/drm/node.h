// DrmNode: a /dev entry of a DRM device: dri/renderD<minor>, dri/card<minor> or accel/accel<minor>.
//
// Owner: Machine; keeps its device alive. Units: none. Errors: ENODEV after unplug, EBUSY for O_EXCL, else
// the driver's. Thread-safety: all methods from any thread. Mirrors: drm_file.c: drm_open, drm_open_helper;
// drm_accel.c: accel_open.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/core/file.h"
#include "sim/drm/drm_file.h"

namespace understudy::drm {

class DrmNode : public Node {
 public:
  // Makes the driver's file for one open (drm_driver.open).
  using MakeFile = std::function<Result<std::shared_ptr<DrmFile>>(const DrmNode& node, const Caller& caller)>;

  DrmNode(std::shared_ptr<Device> device, NodeType type, unsigned minor, MakeFile make_file);

  NodeType type() const { return type_; }
  std::string path() const override { return path_; }
  dev_t device_number() const override { return device_number_; }
  Result<FileRef> open(const Caller& caller, int open_flags) override;

 private:
  const std::shared_ptr<Device> device_;
  const NodeType type_;
  const std::string path_;
  const dev_t device_number_;
  const MakeFile make_file_;
};

}  // namespace understudy::drm
