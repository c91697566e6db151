// doctor: what this host allows, and what would change it.
#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/host_checks.h"

namespace understudy::cli {

int doctor_command() {
  bool can_run = true;
  bool has_fuse = false;
  for (const std::string_view name : host_check_names()) {
    const HostCheck check = run_host_check(name);
    fmt::print("{:<11} {:<4} {}\n", check.name, check.works ? "yes" : "no", check.found);
    fmt::print("{:<16} good for: {}\n", "", check.good_for);
    if (!check.works && !check.fix.empty()) fmt::print("{:<16} to fix it: {}\n", "", check.fix);
    if (name == "shim") can_run = check.works;
    if (name == "fuse") has_fuse = check.works;
  }
  fmt::print("\n{}\n", !can_run   ? "Machines cannot run here: the shim is missing."
                       : has_fuse ? "Machines run here, with the fuse door."
                                  : "Machines run here, with the socket door.");
  return can_run ? 0 : 1;
}

}  // namespace understudy::cli
