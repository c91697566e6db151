// Operations that start, watch, signal and end processes and threads.
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "json.h"
#include "operations.h"

namespace probe {
namespace {

Helper& helper(Run& run) {
  const auto found = run.context.helpers.find(run.word(0));
  if (found == run.context.helpers.end()) {
    std::fprintf(stderr, "oracle_probe: %s: no process or thread %s\n", run.context.sequence.c_str(),
                 run.word(0).c_str());
    std::exit(2);
  }
  return found->second;
}

Outcome fork_process(Run& run) {
  const int transcript_fd = memfd_create("transcript", 0);
  const pid_t pid = fork();
  if (pid == 0) {
    run.context.transcript_fd = transcript_fd;
    run.context.helpers.clear();
    run_steps(run.context, run.step.body);
    std::_Exit(0);
  }
  Outcome outcome = from_call(pid);
  if (pid < 0) return outcome;
  run.context.helpers[run.word(0)] = Helper{pid, transcript_fd, {}, nullptr};
  outcome.value = 0;
  return outcome;
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) return json_string(std::string("SIG") + sigabbrev_np(WTERMSIG(status)));
  return json_string("exit " + std::to_string(WEXITSTATUS(status)));
}

Outcome wait_process(Run& run) {
  const Helper process = helper(run);
  int status = 0;
  if (waitpid(process.pid, &status, 0) < 0) return from_call(-1);
  lseek(process.transcript_fd, 0, SEEK_SET);
  std::string lines;
  char chunk[4096];
  for (ssize_t length; (length = read(process.transcript_fd, chunk, sizeof chunk)) > 0;)
    lines.append(chunk, static_cast<std::size_t>(length));
  close(process.transcript_fd);
  run.context.write_lines(lines);
  run.context.helpers.erase(run.word(0));
  Outcome outcome;
  outcome.result = status_text(status);
  return outcome;
}

Outcome kill_process(Run& run) {
  return from_call(kill(helper(run).pid, static_cast<int>(run.operand(1))));
}

struct ThreadStart {
  std::shared_ptr<Context> context;
  const std::vector<Step>* steps;
};

void* thread_main(void* argument) {
  const ThreadStart start = *static_cast<ThreadStart*>(argument);
  __atomic_store_n(&start.context->thread_id, static_cast<pid_t>(syscall(SYS_gettid)), __ATOMIC_RELEASE);
  run_steps(*start.context, *start.steps);
  return nullptr;
}

Outcome start_thread(Run& run) {
  auto context = std::make_shared<Context>(run.context);
  context->transcript_fd = -1;
  context->lines.clear();
  ThreadStart start{context, &run.step.body};
  Helper thread;
  thread.context = context;
  errno = pthread_create(&thread.thread, nullptr, thread_main, &start);
  if (errno != 0) return from_call(-1);
  while (__atomic_load_n(&context->thread_id, __ATOMIC_ACQUIRE) == 0) sched_yield();
  run.context.helpers[run.word(0)] = thread;
  return {};
}

Outcome join_thread(Run& run) {
  const Helper thread = helper(run);
  pthread_join(thread.thread, nullptr);
  run.context.write_lines(thread.context->lines);
  run.context.variables = thread.context->variables;
  run.context.helpers.erase(run.word(0));
  return {};
}

struct TaskState {
  char state = 0;  // as in /proc/PID/stat; 0 when the task is gone
  long voluntary_switches = -1;
};

TaskState task_state(const Helper& task) {
  const std::string path = task.pid != 0
                               ? "/proc/" + std::to_string(task.pid) + "/status"
                               : "/proc/self/task/" + std::to_string(task.context->thread_id) + "/status";
  std::ifstream file(path);
  TaskState state;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("State:")) state.state = line[7];
    if (line.starts_with("voluntary_ctxt_switches:")) state.voluntary_switches = std::atol(line.c_str() + 24);
  }
  return state;
}

// The kernel does not tell when a caller has reached its wait, so "blocked" means: asleep at a run of looks
// without having run in between.
Outcome wait_until_blocked(Run& run) {
  constexpr int kQuietLooks = 8;
  constexpr useconds_t kLookInterval_us = 10'000;
  constexpr int kMaxLooks = 3'000;
  const Helper& task = helper(run);
  Outcome outcome;
  outcome.result = json_string("running");
  TaskState last;
  int quiet = 0;
  for (int look = 0; look < kMaxLooks; ++look) {
    const TaskState now = task_state(task);
    if (now.state == 0 || now.state == 'Z') {
      outcome.result = json_string("ended");
      return outcome;
    }
    const bool asleep = now.state == 'S' || now.state == 'D';
    quiet = asleep && now.voluntary_switches == last.voluntary_switches ? quiet + 1 : 0;
    if (quiet == kQuietLooks) {
      outcome.result = json_string("blocked");
      return outcome;
    }
    last = now;
    usleep(kLookInterval_us);
  }
  return outcome;
}

Outcome interrupt_task(Run& run) {
  const Helper& task = helper(run);
  const auto signal = static_cast<int>(run.operand(1));
  if (task.pid != 0) return from_call(kill(task.pid, signal));
  errno = pthread_kill(task.thread, signal);
  return from_call(errno == 0 ? 0 : -1);
}

Outcome set_alarm(Run& run) {
  const auto milliseconds = static_cast<long>(run.operand(0));
  const itimerval timer{{0, 0}, {milliseconds / 1000, milliseconds % 1000 * 1000}};
  return from_call(setitimer(ITIMER_REAL, &timer, nullptr));
}

Outcome exit_process(Run& run) {
  std::_Exit(static_cast<int>(run.operand(0)));
}

Outcome drop_capabilities(Run&) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return from_call(syscall(SYS_capset, &header, none));
}

// Replaces the program by itself, to go on with the step after this one. Variables survive, names start
// afresh.
Outcome exec_self(Run& run) {
  std::string variables;
  for (const std::uint64_t variable : run.context.variables) variables += hex_number(variable) + ",";
  std::vector<std::string> arguments = run.context.command;
  arguments.insert(arguments.end(), {"--resume", run.context.sequence, run.word(0), variables,
                                     std::to_string(run.context.transcript_fd)});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  return from_call(-1);
}

constexpr OperationRow kOperations[] = {
    {"fork", fork_process},        {"wait", wait_process},
    {"kill", kill_process},        {"thread", start_thread},
    {"join", join_thread},         {"blocked", wait_until_blocked},
    {"interrupt", interrupt_task}, {"alarm", set_alarm},
    {"exit", exit_process},        {"drop-capabilities", drop_capabilities},
    {"exec", exec_self},
};

}  // namespace

std::span<const OperationRow> process_operations() {
  return kOperations;
}

}  // namespace probe
