// KfdIoctls: the ioctl table of one flavour of the driver: which numbers exist and what serves them.
//
// Owner: KfdDriver; rows are constants. Units: none. Errors: look-ups say why there is no row. Thread-safety:
// immutable. Mirrors: amdkfd/kfd_chardev.c: amdkfd_ioctls, kfd_ioctl.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/ioctl_table.h"
#include "sim/core/settings.h"

namespace understudy::kfd {

// Flag of a row whose handler checks what the driver checks, then answers as a kernel without the feature.
inline constexpr std::uint32_t kErrnoOnly = 1;

// What a KFD version added to the table of the one before it.
struct KfdIoctlVersion {
  const char* name;    // "KFD 1.9", "ROCm DKMS"
  unsigned kfd_minor;  // upstream versions
  bool rocm_dkms;      // only in ROCm's out-of-tree driver
  std::span<const IoctlRow> added;
};
std::span<const KfdIoctlVersion> kfd_ioctl_versions();

class KfdIoctls {
 public:
  explicit KfdIoctls(const Flavour& flavour);

  // ENOTTY past the ends of the driver's ranges of numbers, EINVAL for a hole in one.
  Result<const IoctlRow*> find(std::uint32_t nr) const;
  // Is `nr` inside a range, i.e. would the caller's identity be checked before the hole is noticed?
  bool in_range(std::uint32_t nr) const;

 private:
  std::array<const IoctlRow*, 256> rows_{};
  std::uint32_t upstream_end_ = 1;  // one past the last upstream number
  std::uint32_t rocm_end_ = 0;      // one past the last ROCm-only number
};

}  // namespace understudy::kfd
