// The DRM core's ioctl rows: one table for every driver, in the order of their numbers.
//
// Handlers by topic: core_ioctls.cpp (version, caps, handles, authentication), prime_ioctls.cpp,
// syncobj_ioctls.cpp. Numbers without a row have no handler in the kernel either; mode-setting rows answer as
// a driver without DRIVER_MODESET. Owner, units: none. Errors: the kernel's. Thread-safety: constant.
// Mirrors: drm_ioctl.c: drm_ioctls[].
#pragma once

#include <span>

#include "sim/core/ioctl_table.h"
#include "sim/drm/drm_file.h"

namespace understudy::drm {

std::span<const IoctlRow> core_ioctls();

// Handlers get the file through this: core rows are the same for every driver's file class.
template <typename Tag, Outcome (*handler)(DrmFile&, Call&, typename Tag::Args&)>
constexpr IoctlRow core_row_of() {
  return IoctlRow{Tag::kNr, &Tag::descriptor, [](File& file, Call& call) {
                    return handler(static_cast<DrmFile&>(file), call,
                                   *reinterpret_cast<typename Tag::Args*>(call.arguments.data()));
                  }};
}

}  // namespace understudy::drm
