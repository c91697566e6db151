// The probe: runs compiled sequences against whatever kernel or simulator it finds under the given nodes and
// prints one JSON line a step.
//
//   oracle_probe [--timeout SECONDS] [--only SEQUENCE] --node NAME=PATH... PROGRAM
//
// Each sequence runs in a process of its own, so that nothing a sequence leaves behind reaches the next one,
// and a sequence that crashes or hangs is one line in the transcript. It uses libc and the kernel ABI only.
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "context.h"
#include "json.h"
#include "program.h"

namespace probe {
namespace {

// Variables the compiler may use without a step that sets them.
constexpr std::size_t kNowhere = 0;   // address of an inaccessible page
constexpr std::size_t kReadOnly = 1;  // address of a page of zeroes that cannot be written
constexpr std::size_t kPid = 2;       // of the sequence's first process
constexpr std::size_t kVariableCount = 256;

struct Options {
  Context context;
  std::string program;
  std::string only;
  int timeout_seconds = 60;
  std::string resume_sequence;
  std::string resume_step;  // its "do exec" operand
  std::string resume_variables;
};

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: oracle_probe [--timeout SECONDS] [--only SEQUENCE] --node NAME=PATH... PROGRAM\n"
               "PROGRAM is written by scripts/oracle --compile.\n");
  std::exit(2);
}

Options parse_options(int argc, char** argv) {
  Options options;
  const auto next = [&](int& i) { return i + 1 < argc ? std::string(argv[++i]) : (usage(), std::string()); };
  options.context.command.push_back(argv[0]);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--resume") {
      options.resume_sequence = next(i);
      options.resume_step = next(i);
      options.resume_variables = next(i);
      options.context.transcript_fd = std::stoi(next(i));
      continue;
    }
    options.context.command.push_back(argument);
    if (argument == "--timeout" || argument == "--only" || argument == "--node") {
      const std::string value = next(i);
      options.context.command.push_back(value);
      if (argument == "--timeout") options.timeout_seconds = std::stoi(value);
      if (argument == "--only") options.only = value;
      const std::size_t equals = value.find('=');
      if (argument == "--node" && equals == value.npos) usage();
      if (argument == "--node") options.context.nodes[value.substr(0, equals)] = value.substr(equals + 1);
    } else if (options.program.empty() && !argument.starts_with("--")) {
      options.program = argument;
    } else {
      usage();
    }
  }
  if (options.program.empty()) usage();
  return options;
}

void* page(int protection) {
  return mmap(nullptr, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), protection,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void set_predefined_variables(Context& context) {
  context.variables.assign(kVariableCount, 0);
  context.variables[kNowhere] = reinterpret_cast<std::uintptr_t>(page(PROT_NONE));
  context.variables[kReadOnly] = reinterpret_cast<std::uintptr_t>(page(PROT_READ));
  context.variables[kPid] = static_cast<std::uint64_t>(getpid());
}

void on_signal(int) {}

// SIGUSR1 and SIGALRM make a blocking call fail with EINTR where the kernel lets them; SIGUSR2 restarts it.
void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
}

// Runs what follows the exec step whose operand is `number`, wherever it is nested.
bool resume_after(Context& context, const std::vector<Step>& steps, const std::string& number) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].operation == "exec" && steps[i].operands.at(0) == number) {
      context.write_lines(steps[i].echo + ",\"result\":0}\n");
      run_steps(context, steps, i + 1);
      return true;
    }
    if (resume_after(context, steps[i].body, number)) return true;
  }
  return false;
}

int resume(Options& options, const std::vector<Sequence>& sequences) {
  set_predefined_variables(options.context);
  std::size_t index = 0;
  for (const char* text = options.resume_variables.c_str(); *text != '\0'; ++index) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text, &end, 16);
    if (index >= kPid) options.context.variables.at(index) = value;
    text = end + 1;
  }
  options.context.sequence = options.resume_sequence;
  for (const Sequence& sequence : sequences)
    if (sequence.name == options.resume_sequence)
      return resume_after(options.context, sequence.steps, options.resume_step) ? 0 : 2;
  return 2;
}

std::string wait_for_sequence(pid_t pid, int timeout_seconds) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd entry{pidfd, POLLIN, 0};
  const bool ended = poll(&entry, 1, timeout_seconds * 1000) == 1;
  close(pidfd);
  kill(-pid, SIGKILL);  // helpers the sequence did not wait for, or all of it when it hangs
  int status = 0;
  waitpid(pid, &status, 0);
  if (!ended) return "hung";
  if (WIFSIGNALED(status)) return std::string("SIG") + sigabbrev_np(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

void run_sequence(const Options& options, const Sequence& sequence) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    Context context = options.context;
    context.sequence = sequence.name;
    context.transcript_fd = STDOUT_FILENO;
    set_predefined_variables(context);
    run_steps(context, sequence.steps);
    std::_Exit(0);
  }
  setpgid(pid, pid);
  const std::string end = wait_for_sequence(pid, options.timeout_seconds);
  Context output = options.context;
  output.transcript_fd = STDOUT_FILENO;
  output.write_lines("{\"sequence\":" + json_string(sequence.name) + ",\"end\":" + json_string(end) + "}\n");
}

}  // namespace
}  // namespace probe

int main(int argc, char** argv) {
  probe::Options options = probe::parse_options(argc, argv);
  const std::vector<probe::Sequence> sequences = probe::read_program(options.program);
  probe::install_signal_handlers();
  if (!options.resume_sequence.empty()) return probe::resume(options, sequences);
  for (const probe::Sequence& sequence : sequences)
    if (options.only.empty() || options.only == sequence.name) probe::run_sequence(options, sequence);
  return 0;
}
