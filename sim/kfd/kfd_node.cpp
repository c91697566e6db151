#include "sim/kfd/kfd_node.h"

#include <sys/sysmacros.h>

#include "sim/kfd/kfd_file.h"

namespace understudy::kfd {
namespace {

// register_chrdev picks a major at run time; this is one it often picks.
constexpr unsigned kMajor = 234;

}  // namespace

dev_t KfdNode::device_number() const {
  return makedev(kMajor, 0);
}

// Since 7.0 there is no process object without a GPU.
Result<FileRef> KfdNode::open(const Caller& caller, int) {
  if (driver_->gpus().empty() && driver_->kfd_minor() >= kFirstMinorOf7) return Errno(EINVAL);
  return FileRef(std::make_shared<KfdFile>(driver_, driver_->ensure_process(caller.client), device_number()));
}

}  // namespace understudy::kfd
