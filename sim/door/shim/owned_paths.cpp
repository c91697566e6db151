#include "sim/door/shim/owned_paths.h"

#include "sim/door/shim/text.h"

namespace understudy::shim {
namespace {

struct OwnedPath {
  std::string_view path;
  bool is_stem;  // the last name may go on: "226:" for "226:128"
  Claim claim;
};

// The first that matches, counts.
constexpr OwnedPath kOwnedPaths[] = {
    {"/dev/kfd", false, Claim::kWhole},
    {"/dev/dri", false, Claim::kWhole},
    {"/dev/accel", false, Claim::kWhole},
    {"/sys/class/kfd", false, Claim::kWhole},
    {"/sys/class/drm", false, Claim::kWhole},
    {"/sys/class/accel", false, Claim::kWhole},
    {"/sys/devices/virtual/kfd", false, Claim::kWhole},
    {"/sys/devices/pci", true, Claim::kOverlay},
    {"/sys/dev/char/226:", true, Claim::kWhole},  // DRM_MAJOR
    {"/sys/dev/char/261:", true, Claim::kWhole},  // ACCEL_MAJOR
    {"/sys/dev/char/", true, Claim::kOverlay},    // KFD's major is given out at run time
    {"/sys/module/amdgpu", false, Claim::kWhole},
    {"/sys/module/amdxdna", false, Claim::kWhole},
    {"/sys/module/virtio_gpu", false, Claim::kWhole},
    {"/sys/bus/pci/devices", false, Claim::kOverlay},
    {"/sys/bus/pci/drivers/amdgpu", false, Claim::kWhole},
    {"/sys/bus/pci/drivers/amdxdna", false, Claim::kWhole},
    {"/sys/bus/pci/drivers/", true, Claim::kOverlay},
    {"/sys/bus/virtio/devices", false, Claim::kOverlay},
    {"/sys/bus/virtio/drivers/virtio_gpu", false, Claim::kWhole},
    {"/sys/bus/event_source/devices/amd", true, Claim::kWhole},  // the IOMMU's counters
    {"/sys/kernel/debug/accel", false, Claim::kWhole},
    {"/sys/kernel/debug/dri", false, Claim::kWhole},
    {"/sys/kernel/debug/kfd", false, Claim::kWhole},
    {"/proc/modules", false, Claim::kWhole},
};

bool matches(const OwnedPath& owned, std::string_view path) {
  if (!begins_with(path, owned.path)) return false;
  return owned.is_stem || path.size() == owned.path.size() || path[owned.path.size()] == '/';
}

std::size_t end_of_name(std::string_view path, std::size_t from) {
  while (from < path.size() && path[from] != '/') ++from;
  return from;
}

// Devices have addresses with a colon ("0000:03:00.0", "236:0"); without one it is the name after the owned
// directory that must be there.
std::size_t end_of_device(std::string_view path, std::size_t owned_length) {
  std::size_t end = end_of_name(path, owned_length < path.size() ? owned_length + 1 : owned_length);
  bool has_colon = false;
  for (std::size_t i = owned_length; i <= path.size(); ++i) {
    if (i == path.size() || path[i] == '/') {
      if (has_colon) end = i;
      has_colon = false;
    } else if (path[i] == ':') {
      has_colon = true;
    }
  }
  return end;
}

}  // namespace

Ownership ownership_of(std::string_view path) {
  for (const OwnedPath& owned : kOwnedPaths) {
    if (!matches(owned, path)) continue;
    if (owned.claim != Claim::kOverlay) return {owned.claim, path.size()};
    return {owned.claim, end_of_device(path, owned.path.size())};
  }
  return {};
}

bool occurs_in_owned_paths(std::string_view name) {
  for (const OwnedPath& owned : kOwnedPaths) {
    const std::string_view path = owned.path;
    for (std::size_t begin = 1; begin < path.size();) {
      const std::size_t end = end_of_name(path, begin);
      const bool may_go_on = owned.is_stem && end == path.size();
      if (path[begin] == name.front() && path.size() - begin >= 1) {
        const std::string_view part(path.data() + begin, end - begin);
        if (part == name || (may_go_on && begins_with(name, part))) return true;
      }
      begin = end + 1;
    }
  }
  return false;
}

}  // namespace understudy::shim
