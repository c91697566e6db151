#include "sim/cli/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "sim/cli/say.h"
#include "sim/cli/usage_error.h"

namespace understudy::cli {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

class Supervisor {
 public:
  Supervisor(const ServerPlan& plan, const SupervisorOptions& options, MachineRoot root)
      : plan_(plan), options_(options), root_(std::move(root)) {}

  int run() {
    // Orphans of a killed server come to us, CMD among them.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t handled;
    sigemptyset(&handled);
    for (const int signal : kForwarded) sigaddset(&handled, signal);
    sigaddset(&handled, SIGCHLD);
    // A reader of our stderr that left must not keep us from cleaning up.
    sigaddset(&handled, SIGPIPE);
    sigset_t command_mask;
    ::sigprocmask(SIG_BLOCK, &handled, &command_mask);
    auto [ours, theirs] = Control::make_pair();
    server_ = ::fork();
    if (server_ < 0) {
      MachineRoot::remove(root_.path());
      throw UsageError(fmt::format("cannot fork: {}", std::strerror(errno)));
    }
    if (server_ == 0) ::_exit(run_server(plan_, root_, std::move(theirs), command_mask));
    theirs.close();
    sigdelset(&handled, SIGPIPE);
    const UniqueFd signals(::signalfd(-1, &handled, SFD_CLOEXEC));
    while (server_ != 0 || waits_for_command()) {
      pollfd ready[2] = {{signals.get(), POLLIN, 0}, {server_lost_ ? -1 : ours.fd(), POLLIN, 0}};
      if (::poll(ready, 2, -1) < 0) continue;
      if (ready[1].revents != 0) handle_message(ours);
      if (ready[0].revents != 0) handle_signal(signals.get(), ours);
    }
    while (!server_lost_) handle_message(ours);
    if (options_.in_background) write_report(root_.report_path());
    MachineRoot::remove(root_.path());
    return finish();
  }

 private:
  // Only when the server died first is CMD ours to wait for.
  bool waits_for_command() const { return command_ > 0 && !command_status_; }

  void handle_message(const Control& control) {
    const std::optional<ControlMessage> message = control.receive();
    if (!message) {
      server_lost_ = true;
      return;
    }
    switch (message->kind) {
      case ControlKind::kReady:
        command_ = static_cast<pid_t>(message->value);
        if (options_.verbose)
          say(fmt::format("{}; door: {}; seed {}; root {}", describe_devices(plan_.description),
                          message->text, plan_.description.settings.seed, root_.path()));
        if (options_.on_started) options_.on_started("");
        break;
      case ControlKind::kFailed:
        failure_ = message->text;
        break;
      case ControlKind::kChildEnded:
        command_status_ = static_cast<int>(message->value);
        break;
      case ControlKind::kReport:
        report_ += message->text;
        fatal_findings_ += message->value;
        break;
      case ControlKind::kFinished:
        finished_ = true;
        break;
      case ControlKind::kStop:
        break;
    }
  }

  void handle_signal(int signals, const Control& control) {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else if (plan_.command.empty()) {
      control.send(ControlKind::kStop);
    } else if (info.ssi_code != SI_KERNEL && command_ > 0 && !command_status_) {
      // What the terminal sends reaches CMD without us.
      ::kill(command_, signal);
    }
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == server_) {
        server_ = 0;
        server_status_ = status;
      } else if (pid == command_) {
        command_status_ = status;
      }
    }
  }

  int finish() {
    if (!failure_.empty()) {
      if (options_.on_started) {
        options_.on_started(failure_);
      } else {
        say(failure_);
      }
      return kExitUsage;
    }
    print_report();
    const bool lost = !finished_;
    if (lost)
      say(fmt::format("the machine's server ended before its time ({}); calls failed from then on",
                      WIFSIGNALED(server_status_)
                          ? fmt::format("signal {}", WTERMSIG(server_status_))
                          : fmt::format("exit status {}", WEXITSTATUS(server_status_))));
    const int status = command_status_ ? exit_status_of(*command_status_) : 0;
    if (status != 0) return status;
    if (lost) return kExitServerLost;
    return fatal_findings_ > 0 ? static_cast<int>(kExitFindings) : 0;
  }

  void print_report() {
    if (report_.empty() || options_.in_background) return;
    if (options_.report_file.empty()) {
      std::fwrite(report_.data(), 1, report_.size(), stderr);
    } else if (!write_report(options_.report_file)) {
      say(fmt::format("cannot write the report to {}: {}; here it is", options_.report_file,
                      std::strerror(errno)));
      std::fwrite(report_.data(), 1, report_.size(), stderr);
    }
  }

  bool write_report(const std::string& path) const {
    std::ofstream file(path);
    return file << report_ && file.flush();
  }

  const ServerPlan& plan_;
  const SupervisorOptions& options_;
  const MachineRoot root_;
  pid_t server_ = 0;
  int server_status_ = 0;
  bool server_lost_ = false;
  bool finished_ = false;
  pid_t command_ = 0;
  std::optional<int> command_status_;
  std::string failure_;
  std::string report_;
  std::int64_t fatal_findings_ = 0;
};

}  // namespace

int supervise(const ServerPlan& plan, const SupervisorOptions& options, const std::string& machine_name) {
  return Supervisor(plan, options, MachineRoot::create(machine_name)).run();
}

}  // namespace understudy::cli
