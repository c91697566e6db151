// The one way from this library into the kernel's drivers. Retries interrupted calls for ever, as user space
// of KFD and DRM always has: both drivers return EINTR and EAGAIN only for calls that may simply be made
// again.
#pragma once

#include <cstdint>

#include "runtime/base/expected.h"

namespace hsa_rt {

// `command` as _IOC encodes it. Returns what ioctl(2) returned.
Result<int> retrying_ioctl(int fd, uint32_t command, void* args);

// Typed form: Tag is one of the generated ioctl types, uapi::<interface>::<Name>.
template <class Tag>
Result<void> driver_ioctl(int fd, typename Tag::Args& args) {
  TRY(retrying_ioctl(fd, Tag::kCmd, &args));
  return {};
}

// For the few calls that mean something else by EAGAIN: not repeated, whatever the errno.
Result<int> single_ioctl(int fd, uint32_t command, void* args);

template <class Tag>
Result<void> driver_ioctl_once(int fd, typename Tag::Args& args) {
  TRY(single_ioctl(fd, Tag::kCmd, &args));
  return {};
}

}  // namespace hsa_rt
