#include "sim/drm/node.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

namespace understudy::drm {
namespace {

constexpr unsigned kDrmMajor = 226;
constexpr unsigned kAccelMajor = 261;

std::string path_of(NodeType type, unsigned minor) {
  switch (type) {
    case NodeType::kPrimary:
      return "dri/card" + std::to_string(minor);
    case NodeType::kRender:
      return "dri/renderD" + std::to_string(minor);
    case NodeType::kAccel:
      break;
  }
  return "accel/accel" + std::to_string(minor);
}

}  // namespace

DrmNode::DrmNode(std::shared_ptr<Device> device, NodeType type, unsigned minor, MakeFile make_file)
    : device_(std::move(device)),
      type_(type),
      path_(path_of(type, minor)),
      device_number_(::makedev(type == NodeType::kAccel ? kAccelMajor : kDrmMajor, minor)),
      make_file_(std::move(make_file)) {}

Result<FileRef> DrmNode::open(const Caller& caller, int open_flags) {
  if (device_->unplugged()) return Errno(ENODEV);
  if (open_flags & O_EXCL) return Errno(EBUSY);
  const std::shared_ptr<DrmFile> file = TRY(make_file_(*this, caller));
  file->primary().opened(*caller.client);
  if (type_ == NodeType::kPrimary) file->primary().join_master();
  return FileRef(file);
}

}  // namespace understudy::drm
