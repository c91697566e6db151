#include "sim/cli/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "sim/cli/command_process.h"
#include "sim/cli/ledger_text.h"
#include "sim/cli/report.h"
#include "sim/cli/usage_error.h"
#include "sim/door/channel/server.h"

namespace understudy::cli {
namespace {

using std::chrono::milliseconds;

// How long the kernel may take to tell us of ends and closes that have happened already.
constexpr milliseconds kSettlePatience{1000};
// Between SIGTERM and SIGKILL to clients that outlive CMD.
constexpr milliseconds kLeftoverPatience{500};
constexpr milliseconds kPause{1};
// A report that names more helps nobody.
constexpr std::size_t kMaxAbruptEnds = 100;

bool wait_for(milliseconds patience, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

bool is_alive(const Client& client) {
  pollfd ended{client.pidfd(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0;
}

std::vector<ClientRef> live_clients(Machine& machine) {
  std::vector<ClientRef> clients = machine.clients().all();
  std::erase_if(clients, [](const ClientRef& client) { return !is_alive(*client); });
  return clients;
}

// Until the machine has noticed every exit and, with nobody left, every close.
void settle(Machine& machine) {
  wait_for(kSettlePatience,
           [&machine] { return live_clients(machine).size() == machine.clients().all().size(); });
  if (!live_clients(machine).empty()) return;
  wait_for(kSettlePatience, [&machine] { return machine.files().all().empty(); });
}

void leave_the_terminal(std::vector<int> kept) {
  // A group of its own: Ctrl-C is for CMD.
  ::setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);
  // The modes in the tree are the kernel's, not the user's.
  ::umask(0);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  // What else was inherited is CMD's (pipes whose end somebody waits for).
  std::sort(kept.begin(), kept.end());
  unsigned from = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd < static_cast<int>(from)) continue;
    if (fd > static_cast<int>(from)) ::syscall(SYS_close_range, from, static_cast<unsigned>(fd) - 1, 0);
    from = static_cast<unsigned>(fd) + 1;
  }
  ::syscall(SYS_close_range, from, ~0u, 0);
}

void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Server {
 public:
  Server(const ServerPlan& plan, const MachineRoot& root)
      : plan_(plan),
        root_(root),
        machine_(plan.description.settings),
        observation_(machine_, plan.observation) {}

  // Throws UsageError when the machine cannot start.
  void start() {
    started_ns_ = machine_.clock().now_ns();
    // Before the drivers, who let go of what a dead client held.
    machine_.clients().on_gone([this](const ClientRef& client) { note_abrupt_end(*client); });
    if (plan_.compose) plan_.compose(machine_, plan_.description);
    observation_.install();
    OpenedDoor opened = open_door(plan_.door, machine_, root_.tree_path());
    door_ = std::move(opened.door);
    if (!plan_.mount_point.empty()) {
      root_.note_mount(plan_.mount_point);
      second_door_ = open_door(DoorChoice::kFuse, machine_, plan_.mount_point).door;
    }
    why_not_fuse_ = std::move(opened.why_not_fuse);
    Result<std::unique_ptr<door::ChannelServer>> channel =
        door::ChannelServer::create(machine_, *door_, root_.channel_path());
    if (!channel)
      throw UsageError(
          fmt::format("cannot listen at {}: {} (is it too long? set XDG_RUNTIME_DIR to a shorter one)",
                      root_.channel_path(), std::strerror(channel.error().number())));
    channel_ = std::move(channel).value();
    channel_->set_administration([this](door::MessageKind kind, std::string_view payload) {
      return kind == door::kInject ? observation_.inject(payload) : list_ledgers();
    });
    MachineInfo info;
    info.supervisor = ::getppid();
    info.door = door_->name();
    info.devices = describe_devices(plan_.description);
    info.seed = std::to_string(plan_.description.settings.seed);
    root_.write_info(info);
  }

  std::string door_note() const {
    return why_not_fuse_.empty() ? std::string(door_->name())
                                 : fmt::format("{} (no fuse: {})", door_->name(), why_not_fuse_);
  }

  // The machine is switched off: its clients' calls fail from now on.
  Report stop(bool end_clients) {
    settle(machine_);
    const std::vector<LeftoverClient> leftover = handle_leftover(end_clients);
    machine_.sweep();
    Report report;
    report.findings = machine_.ledger().findings();
    if (const auto& host = machine_.host()) report.host_findings = findings_on(*host);
    report.shimless_clients = door_->shimless_clients();
    if (second_door_) {
      for (door::ShimlessClient& client : second_door_->shimless_clients())
        report.shimless_clients.push_back(std::move(client));
    }
    report.leftover_clients = leftover;
    {
      const std::lock_guard lock(abrupt_ends_mutex_);
      report.abrupt_ends = abrupt_ends_;
    }
    report.unsupported_calls = machine_.ledger().unsupported_calls();
    report.seed = plan_.description.settings.seed;
    report.started_ns = started_ns_;
    report.fatal = plan_.observation.fail_on;
    report.suppressed = plan_.observation.suppressions;
    report.list_leaks = plan_.observation.list_leaks;
    report.drop_suppressed();
    channel_.reset();
    second_door_.reset();
    door_.reset();
    observation_.finish();
    return report;
  }

 private:
  // A client that exits in order says goodbye, and is asked about leaks then.
  void note_abrupt_end(const Client& client) {
    if (!client.has_shim() || client.said_goodbye()) return;
    std::vector<LedgerLine> held = machine_.ledger().held_by(client);
    if (held.empty()) return;
    const std::lock_guard lock(abrupt_ends_mutex_);
    if (abrupt_ends_.size() < kMaxAbruptEnds)
      abrupt_ends_.push_back({client.pid(), client.name(), std::move(held)});
  }

  std::string list_ledgers() {
    std::string text = ledger_text(machine_.ledger(), started_ns_);
    if (machine_.host()) text += ledger_text(machine_.host()->ledger(), started_ns_, "host: ");
    return text;
  }

  // The guest has ended; what its machine's process still holds on the host, the guest has left there.
  static std::vector<Finding> findings_on(Machine& host) {
    for (const ClientRef& client : host.clients().all()) {
      wait_for(kSettlePatience, [&] { return host.ledger().held_by(*client).empty(); });
      host.ledger().note_exit(*client);
    }
    return host.ledger().findings();
  }

  std::vector<LeftoverClient> handle_leftover(bool end_clients) {
    std::vector<LeftoverClient> leftover;
    const std::vector<ClientRef> clients = live_clients(machine_);
    for (const ClientRef& client : clients) leftover.push_back({client->pid(), client->name(), end_clients});
    if (!end_clients || clients.empty()) return leftover;
    const auto signal_all = [&clients](int signal) {
      for (const ClientRef& client : clients)
        ::syscall(SYS_pidfd_send_signal, client->pidfd(), signal, nullptr, 0);
    };
    signal_all(SIGTERM);
    if (!wait_for(kLeftoverPatience, [this] { return live_clients(machine_).empty(); })) signal_all(SIGKILL);
    settle(machine_);
    return leftover;
  }

  const ServerPlan& plan_;
  const MachineRoot& root_;
  Machine machine_;
  Observation observation_;
  std::unique_ptr<door::Door> door_;
  std::unique_ptr<door::Door> second_door_;  // --mount
  std::unique_ptr<door::ChannelServer> channel_;
  std::string why_not_fuse_;
  std::mutex abrupt_ends_mutex_;
  std::vector<AbruptEnd> abrupt_ends_;  // guarded by abrupt_ends_mutex_
  std::uint64_t started_ns_ = 0;
};

// What ends the wait of the main thread.
struct Ending {
  bool supervisor_lost = false;
  std::optional<int> command_status;
};

Ending wait_for_the_end(const Control& control, int signals, pid_t command) {
  for (;;) {
    pollfd ready[2] = {{control.fd(), POLLIN, 0}, {signals, POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0) continue;
    if (ready[0].revents != 0) {
      const std::optional<ControlMessage> message = control.receive();
      return Ending{.supervisor_lost = !message.has_value()};
    }
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) continue;
    int status = 0;
    if (command > 0 && ::waitpid(command, &status, WNOHANG) == command)
      return Ending{.command_status = status};
  }
}

}  // namespace

int run_server(const ServerPlan& plan, const MachineRoot& root, Control control,
               const sigset_t& command_mask) {
  CommandProcess command;
  if (!plan.command.empty())
    command = CommandProcess::fork(plan.command, root.path(), plan.shim, command_mask, control.fd());
  ::prctl(PR_SET_NAME, "understudy-mach");
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGCHLD);
  const UniqueFd signals(::signalfd(-1, &handled, SFD_CLOEXEC));
  leave_the_terminal({control.fd(), root.lock_fd(), signals.get(), command.go_fd()});
  allow_many_descriptors();

  Server server(plan, root);
  try {
    server.start();
  } catch (const UsageError& error) {
    control.send(ControlKind::kFailed, 0, error.what());
    return kExitUsage;
  }
  control.send(ControlKind::kReady, command.pid(), server.door_note());
  command.begin();
  const Ending ending = wait_for_the_end(control, signals.get(), command.pid());
  if (ending.command_status) {
    control.send(ControlKind::kChildEnded, *ending.command_status);
  } else if (command.pid() > 0) {
    ::kill(command.pid(), SIGKILL);
    ::waitpid(command.pid(), nullptr, 0);
  }
  const Report report = server.stop(!plan.command.empty());
  control.send(ControlKind::kReport, report.fatal_count(),
               plan.report_as_json ? report.json() : report.text());
  if (ending.supervisor_lost) MachineRoot::remove(root.path());
  control.send(ControlKind::kFinished);
  return 0;
}

}  // namespace understudy::cli
