#include "sim/core/glob.h"

#include <cstddef>

namespace understudy {
namespace {

constexpr std::string_view kCallPrefixes[] = {"AMDKFD_IOC_", "DRM_IOCTL_AMDGPU_", "DRM_IOCTL_AMDXDNA_",
                                              "DRM_IOCTL_VIRTGPU_", "DRM_IOCTL_"};

}  // namespace

bool glob_matches(std::string_view glob, std::string_view text) {
  std::size_t at_glob = 0, at_text = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (at_text < text.size()) {
    if (at_glob < glob.size() && (glob[at_glob] == '?' || glob[at_glob] == text[at_text])) {
      ++at_glob;
      ++at_text;
    } else if (at_glob < glob.size() && glob[at_glob] == '*') {
      star = at_glob++;
      resume = at_text;
    } else if (star != std::string_view::npos) {
      at_glob = star + 1;
      at_text = ++resume;
    } else {
      return false;
    }
  }
  while (at_glob < glob.size() && glob[at_glob] == '*') ++at_glob;
  return at_glob == glob.size();
}

bool call_matches(std::string_view glob, std::string_view call_name) {
  if (glob_matches(glob, call_name)) return true;
  for (const std::string_view prefix : kCallPrefixes) {
    if (call_name.starts_with(prefix) && glob_matches(glob, call_name.substr(prefix.size()))) return true;
  }
  return false;
}

}  // namespace understudy
