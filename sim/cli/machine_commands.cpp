// exec, ps and stop: use machines that are up.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "sim/cli/command_process.h"
#include "sim/cli/commands.h"
#include "sim/cli/install_paths.h"
#include "sim/cli/registry.h"
#include "sim/cli/say.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

constexpr std::chrono::seconds kStopPatience{15};
constexpr std::chrono::milliseconds kPause{5};

}  // namespace

int exec_command(const std::string& name, const std::vector<std::string>& command) {
  const MachineInfo machine = require_machine(name);
  set_client_environment(machine.root, shim_path());
  execute(command);
}

int ps_command() {
  std::vector<MachineInfo> machines = running_machines();
  std::erase_if(machines, [](const MachineInfo& machine) { return !machine.is_ready; });
  if (machines.empty()) return 0;
  fmt::print("{:<16} {:>8} {:<7} {:<6} {:<28} {}\n", "NAME", "PID", "DOOR", "SEED", "DEVICES", "ROOT");
  for (const MachineInfo& machine : machines) {
    fmt::print("{:<16} {:>8} {:<7} {:<6} {:<28} {}\n", machine.name, machine.supervisor, machine.door,
               machine.seed, machine.devices, machine.root);
  }
  return 0;
}

int stop_command(const std::string& name) {
  const MachineInfo machine = require_machine(name);
  const UniqueFd report(::open((machine.root + "/report").c_str(), O_RDONLY | O_CLOEXEC));
  if (machine.supervisor <= 1 || ::kill(machine.supervisor, SIGTERM) != 0)
    throw UsageError(fmt::format("cannot stop machine '{}' (process {}): {}", name, machine.supervisor,
                                 std::strerror(errno)));
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  while (find_machine(name)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw UsageError(fmt::format("machine '{}' (process {}) does not stop", name, machine.supervisor));
    std::this_thread::sleep_for(kPause);
  }
  char text[4096];
  for (ssize_t got; report && (got = ::read(report.get(), text, sizeof text)) > 0;)
    std::fwrite(text, 1, static_cast<std::size_t>(got), stderr);
  return 0;
}

}  // namespace understudy::cli
