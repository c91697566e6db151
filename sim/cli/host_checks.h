// What this host allows, found out by trying it: the fuse mount, access to other processes' memory,
// userfaultfd write protection, cuse.
//
// Owner: stateless. Units: none. Errors: a check that fails says why and what to do. Thread-safety: checks
// fork; call them before there are threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace understudy::cli {

struct HostCheck {
  std::string_view name;  // as in --require
  std::string_view good_for;
  bool works = false;
  std::string found;  // what was seen; when it fails, the reason
  std::string fix;    // when it fails
};

std::vector<std::string_view> host_check_names();
HostCheck run_host_check(std::string_view name);

}  // namespace understudy::cli
