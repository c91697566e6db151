// run and serve: start a machine.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

#include "sim/cli/command_process.h"
#include "sim/cli/commands.h"
#include "sim/cli/host_checks.h"
#include "sim/cli/install_paths.h"
#include "sim/cli/say.h"
#include "sim/cli/supervisor.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

void prepare(MachineOptions& options) {
  for (const std::string& name : options.required) {
    const HostCheck check = run_host_check(name);
    if (!check.works)
      throw UsageError(fmt::format("--require {}: this host has it not: {} (to fix it: {})", name,
                                   check.found, check.fix.empty() ? "see understudy doctor" : check.fix));
    if (name == "fuse" && options.plan.door == DoorChoice::kAuto) options.plan.door = DoorChoice::kFuse;
  }
  if (!options.plan.mount_point.empty()) check_mount_point(options.plan.mount_point);
  options.plan.shim = shim_path();
  if (::access(options.plan.shim.c_str(), R_OK) != 0)
    throw UsageError(
        fmt::format("the preload shim is missing: {}: {}", options.plan.shim, std::strerror(errno)));
}

SupervisorOptions supervisor_options(const MachineOptions& options) {
  SupervisorOptions result;
  result.verbose = options.verbose;
  result.report_file = options.report_file;
  return result;
}

void detach_standard_descriptors() {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
}

// The background process, in which this returns; the foreground one waits for `notify` and exits.
UniqueFd go_to_background() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw UsageError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  UniqueFd told(ends[0]);
  UniqueFd notify(ends[1]);
  const pid_t background = ::fork();
  if (background < 0) throw UsageError(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (background == 0) {
    ::setsid();
    // Whoever waits for our output to end does not wait for the machine; what there is to say goes to
    // `notify`.
    detach_standard_descriptors();
    return notify;
  }
  notify.reset();
  std::string failure;
  char text[512];
  for (ssize_t got; (got = ::read(told.get(), text, sizeof text)) != 0;) {
    if (got > 0) failure.append(text, static_cast<std::size_t>(got));
  }
  // One NUL: it is up. Nothing at all: it died.
  if (failure == std::string(1, '\0')) ::_exit(0);
  say(failure.empty() ? "the machine did not start" : failure);
  ::_exit(kExitUsage);
}

}  // namespace

int run_command(MachineOptions options) {
  prepare(options);
  std::string message;
  if (const int status = check_executable(options.plan.command[0], &message); status != 0) {
    say(message);
    return status;
  }
  return supervise(options.plan, supervisor_options(options), "");
}

int serve_command(MachineOptions options, const std::string& name, bool background) {
  prepare(options);
  SupervisorOptions supervisor = supervisor_options(options);
  if (!background) {
    supervisor.on_started = [&name](const std::string& failure) {
      say(failure.empty()
              ? fmt::format("machine '{0}' is up: understudy exec {0} -- CMD; Ctrl-C stops it", name)
              : failure);
    };
    return supervise(options.plan, supervisor, name);
  }
  if (find_machine(name))
    throw UsageError(
        fmt::format("machine '{0}' is already up (understudy stop {0}, or choose another name)", name));
  UniqueFd notify = go_to_background();
  supervisor.in_background = true;
  const auto tell = [&notify](std::string_view text) {
    (void)!::write(notify.get(), text.data(), text.size());
    notify.reset();
  };
  supervisor.on_started = [&tell](const std::string& failure) {
    tell(failure.empty() ? std::string_view("\0", 1) : std::string_view(failure));
  };
  try {
    return supervise(options.plan, supervisor, name);
  } catch (const UsageError& error) {
    tell(error.what());
    return kExitUsage;
  }
}

}  // namespace understudy::cli
