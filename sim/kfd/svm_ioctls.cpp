// KfdFile's handler for shared virtual memory. Mirrors amdkfd/kfd_chardev.c: kfd_ioctl_svm,
// kfd_ioctl_svm_validate.
#include "sim/kfd/kfd_file.h"

namespace understudy::kfd {
namespace {

using namespace uapi::kfd;

constexpr std::uint64_t kPageMask = 4095;

}  // namespace

Outcome KfdFile::svm(Call& call, kfd_ioctl_svm_args& args) {
  const std::size_t needed = sizeof args + args.nattr * sizeof(kfd_ioctl_svm_attribute);
  if (uapi::cmd_size(call.command) < needed) return Errno(EINVAL);
  if (process().is_secondary()) return Errno(EOPNOTSUPP);
  if ((args.start_addr | args.size) & kPageMask) return Errno(EINVAL);
  if (args.start_addr == 0 || args.size == 0) return Errno(EINVAL);
  const std::lock_guard lock(process().mutex());
  const std::span attributes(args.attrs, args.nattr);
  Svm& svm = process().svm();
  switch (args.op) {
    case KFD_IOCTL_SVM_OP_SET_ATTR:
      return svm.set_attributes(args.start_addr, args.size, process().xnack_enabled, process().vms(),
                                attributes);
    case KFD_IOCTL_SVM_OP_GET_ATTR:
      return svm.get_attributes(args.start_addr, args.size, process().xnack_enabled, process().vms(),
                                attributes);
  }
  return Errno(EINVAL);
}

}  // namespace understudy::kfd
