// Prints docs/coverage.md: every ioctl of every interface, and what becomes of it here. Made from the tables
// that dispatch reads, so it cannot say anything else than what happens.
#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "sim/drm/core_ioctls.h"
#include "sim/kfd/kfd_ioctls.h"
#include "sim/kfd/render/render_node.h"
#include "sim/virtio_gpu/guest/kernel_flavour.h"
#include "sim/xdna/npu.h"
#include "uapi/amdgpu.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"
#include "uapi/virtgpu.h"

namespace understudy {
namespace {

struct Interface {
  const char* title;
  std::span<const uapi::IoctlDescriptor> numbers;  // what the kernel's header defines
  std::vector<IoctlRow> rows;
};

std::vector<IoctlRow> kfd_rows() {
  std::vector<IoctlRow> rows;
  for (const kfd::KfdIoctlVersion& version : kfd::kfd_ioctl_versions())
    rows.insert(rows.end(), version.added.begin(), version.added.end());
  return rows;
}

std::vector<IoctlRow> rows_of(std::span<const IoctlRow> rows) {
  return {rows.begin(), rows.end()};
}

// The kernel keeps a few errno to itself (ENOTSUPP); the C library has no name for them.
std::string errno_name(int value) {
  const char* name = ::strerrorname_np(value);
  return name != nullptr ? name : fmt::format("{}", value);
}

std::string fate_of(const std::vector<IoctlRow>& rows, const uapi::IoctlDescriptor& number) {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const IoctlRow& candidate) { return candidate.nr == number.nr; });
  if (row == rows.end()) return number.has_handler ? "absent" : "absent, as in the kernel";
  if (row->invoke == nullptr) return fmt::format("errno only: {}", errno_name(row->unsupported_errno));
  return row->flags & kfd::kErrnoOnly ? "checks its arguments, then fails as without the feature"
                                      : "simulated";
}

void print(const Interface& interface) {
  fmt::print("\n## {}\n\n| number | name | here |\n|---|---|---|\n", interface.title);
  std::vector<uapi::IoctlDescriptor> numbers(interface.numbers.begin(), interface.numbers.end());
  std::stable_sort(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.nr < b.nr; });
  for (const uapi::IoctlDescriptor& number : numbers)
    fmt::print("| {:#04x} | {} | {} |\n", number.nr, number.name, fate_of(interface.rows, number));
}

}  // namespace
}  // namespace understudy

int main() {
  using namespace understudy;
  fmt::print(
      "# Coverage\n\nGenerated from the ioctl tables by `coverage_page`; do not edit. *simulated*: behaves "
      "as the driver does. "
      "*errno only*: the\nanswer of a kernel without the feature. *absent*: no such number in the driver, "
      "answered as the kernel answers unknown numbers.\n");
  print({"KFD (upstream)", uapi::kfd::ioctls(), kfd_rows()});
  print({"KFD (ROCm's own numbers are 0x80 and above)", uapi::kfd_rocm::ioctls(), kfd_rows()});
  print({"DRM core", uapi::drm::ioctls(), rows_of(drm::core_ioctls())});
  print({"amdgpu render and primary node", uapi::amdgpu::ioctls(), rows_of(kfd::amdgpu_ioctls())});
  print({"amdxdna", uapi::amdxdna::ioctls(), rows_of(xdna::xdna_ioctls())});
  print({"virtio-gpu guest", uapi::virtgpu::ioctls(),
         rows_of(virtio_gpu::find_kernel_flavour("upstream")->ioctls())});
}
